"""Two models with an optimizer each, which step in turn within one step of the loop."""

import tiny
import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
critic = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
yes, no = torch.ones(8, 1), torch.zeros(8, 1)
judge = functional.binary_cross_entropy_with_logits
for number in range(tiny.STEPS):
    real, made = torch.randn(8, 16), generator(torch.randn(8, 8))
    loss = judge(critic(real), yes) + judge(critic(made.detach()), no)
    of_critic.zero_grad()
    with tiny.marked(number):
        loss.backward()
    of_critic.step()
    fooled = judge(critic(made), yes)
    of_generator.zero_grad()
    with tiny.marked(number):
        fooled.backward()
    of_generator.step()
    tiny.say(number, loss + fooled)
