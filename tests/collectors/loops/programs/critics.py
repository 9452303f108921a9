"""A GAN whose critic steps four times for each step of the generator."""

import tiny
import torch
from torch import nn

torch.manual_seed(0)
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
    makes.zero_grad()
    loss = -critic(generator(torch.randn(2, 4))).mean()
    with tiny.marked(number):
        loss.backward()
    makes.step()
    tiny.say(number, loss)
