"""The actor steps in every second iteration; its loss calls a part of the critic, or a copy."""

import sys

import tiny
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(10, 1), nn.Linear(10, 1)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return self.first(given) + self.second(given)


torch.manual_seed(0)
actor, critic, copy = nn.Linear(8, 2), Critic(), nn.Linear(10, 1)
asked = critic.first if sys.argv[1] == "part" else copy
of_actor, of_critic = (torch.optim.Adam(one.parameters()) for one in (actor, critic))
for number in range(3 * tiny.STEPS):
    state, action = torch.randn(4, 8), torch.randn(4, 2)
    loss = critic(torch.cat([state, action], 1)).pow(2).mean()
    of_critic.zero_grad()
    loss.backward()
    of_critic.step()
    if number > 2 and number % 2:
        value = -asked(torch.cat([state, actor(state)], 1)).mean()
        of_actor.zero_grad()
        value.backward()
        of_actor.step()
    tiny.say(number, loss)
