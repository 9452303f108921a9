"""An agent with its own `backward` and `step`, whose parts are called and which is copied per step.

Every sixth step prints the state of the copy. The end prints whether the agent is freed.
"""

import copy
import gc
import pickle
import weakref

import tiny
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.actor = nn.Linear(8, 4)
        self.critic = nn.Linear(8, 1)
        self.last = 0.0

    def forward(self, seen):
        return self.actor(seen).logsumexp(1, keepdim=True) - self.critic(seen)

    def backward(self, loss):
        self.last = loss.item()
        loss.backward()

    def step(self):
        with torch.no_grad():
            self.actor.bias += 1


agent = Agent()
optimizer = torch.optim.AdamW(agent.parameters(), lr=1e-3)
for number in range(tiny.STEPS):
    seen = torch.randn(4, 8)
    loss = agent.forward(seen).square().mean()
    with tiny.marked(number):
        agent.backward(loss)
    twin = copy.deepcopy(agent)
    twin.backward(torch.full((), float(number), requires_grad=True))
    twin.step()
    optimizer.step()
    optimizer.zero_grad()
    held = sorted(name for name in vars(twin) if not name.startswith("_"))
    if number % 6 == 5:
        tiny.tell(f"twin {held} {twin.last:.7g} {twin.actor.bias.sum().item():.7g}")
        tiny.tell(f"agent {len(pickle.dumps(agent))} {agent.actor.bias.sum().item():.7g}")
    tiny.say(number, agent.last)

gone = weakref.ref(agent), weakref.ref(optimizer)
del agent, optimizer, twin, loss
gc.collect()
tiny.tell(f"gone {[one() is None for one in gone]}")
