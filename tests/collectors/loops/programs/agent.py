"""An agent whose parts are called, with a `backward` and a `step` of its own, copied in each step.

Of each step it prints what a copy made in it holds and does; at the end, whether the agent can go.
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
    tiny.tell(f"twin {held} {twin.last.hex()} {twin.actor.bias.sum().item().hex()}")
    tiny.tell(f"agent {len(pickle.dumps(agent))} {agent.actor.bias.sum().item().hex()}")
    tiny.say(number, agent.last)

gone = weakref.ref(agent), weakref.ref(optimizer)
del agent, optimizer, twin, loss
gc.collect()
tiny.tell(f"gone {[one() is None for one in gone]}")
