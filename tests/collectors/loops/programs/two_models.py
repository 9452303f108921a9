"""Two models whose optimizers step at different rates; the word says which pair.

`critics`: a critic steps four times for each step of the generator. `targets`: TD3, which queries
target networks in evaluation mode before each step. `part`, `copy`: the actor steps in every second
iteration, and its loss calls a part of the critic or a separate copy.
"""

import copy
import sys

import tiny
import torch
from torch import nn
from torch.nn import functional

kind = sys.argv[1]
torch.manual_seed(0)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(10, 1), nn.Linear(10, 1)

    def forward(self, given):
        return self.first(given) + self.second(given)


def critics():
    generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
    critic = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    makes = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
    judges = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
    for number in range(tiny.STEPS):
        for _ in range(4):
            judges.zero_grad()
            made = generator(torch.randn(2, 4)).detach()
            (critic(made).mean() - critic(torch.randn(2, 8)).mean()).backward()
            judges.step()
        tiny.step(number, -critic(generator(torch.randn(2, 4))).mean(), makes)


def targets():
    actor, critic = nn.Linear(8, 2), nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    actor_target, critic_target = copy.deepcopy(actor).eval(), copy.deepcopy(critic).eval()
    of_actor = torch.optim.Adam(actor.parameters(), lr=1e-3)
    of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for number in range(tiny.STEPS):
        state, action, reward = torch.randn(4, 8), torch.randn(4, 2), torch.randn(4, 1)
        with torch.no_grad():
            wanted = reward + critic_target(torch.cat([state, actor_target(state)], 1))
        loss = functional.mse_loss(critic(torch.cat([state, action], 1)), wanted)
        of_critic.zero_grad()
        with tiny.marked(number):
            loss.backward()
        of_critic.step()
        value = -critic(torch.cat([state, actor(state)], 1)).mean()
        of_actor.zero_grad()
        value.backward()
        of_actor.step()
        tiny.say(number, loss + value)


def delayed_actor():
    actor, critic, other = nn.Linear(8, 2), Critic(), nn.Linear(10, 1)
    queried = critic.first if kind == "part" else other
    of_actor, of_critic = (torch.optim.Adam(one.parameters()) for one in (actor, critic))
    for number in range(3 * tiny.STEPS):
        state, action = torch.randn(4, 8), torch.randn(4, 2)
        loss = critic(torch.cat([state, action], 1)).pow(2).mean()
        of_critic.zero_grad()
        loss.backward()
        of_critic.step()
        if number > 2 and number % 2:
            value = -queried(torch.cat([state, actor(state)], 1)).mean()
            of_actor.zero_grad()
            value.backward()
            of_actor.step()
        tiny.say(number, loss)


{"critics": critics, "targets": targets}.get(kind, delayed_actor)()
