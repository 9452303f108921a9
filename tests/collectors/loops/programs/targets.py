"""TD3: the critic's step, then the actor's; each iteration asks targets in evaluation mode."""

import copy

import tiny
import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
actor, critic = nn.Linear(8, 2), nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
actor_target, critic_target = copy.deepcopy(actor).eval(), copy.deepcopy(critic).eval()
of_actor = torch.optim.Adam(actor.parameters(), lr=1e-3)
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
for number in range(tiny.STEPS):
    state, action, reward = torch.randn(4, 8), torch.randn(4, 2), torch.randn(4, 1)
    with torch.no_grad(), tiny.marked(number):
        wanted = reward + critic_target(torch.cat([state, actor_target(state)], 1))
    loss = functional.mse_loss(critic(torch.cat([state, action], 1)), wanted)
    of_critic.zero_grad()
    loss.backward()
    of_critic.step()
    value = -critic(torch.cat([state, actor(state)], 1)).mean()
    of_actor.zero_grad()
    value.backward()
    of_actor.step()
    tiny.say(number, loss + value)
