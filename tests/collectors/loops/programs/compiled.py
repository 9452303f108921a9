"""A compiled loop. Words: what is compiled (model, place, layers, step), and the backend.

In place of the backend, `reduce-overhead` replays CUDA graphs of the model.

With `calling` the model is compiled, and its layers have a `__call__` of their own, as those of
transformers up to 5.19 that can be checkpointed.
"""

import sys

import tiny
import torch


class Calling(tiny.Layer):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)


what, backend = sys.argv[1:]
how = {"mode": backend} if backend == "reduce-overhead" else {"backend": backend}
if what == "calling":
    tiny.Layer = Calling
model = tiny.decoder()
if what == "step" or (backend == "inductor" and tiny.DEVICE == "cpu"):
    # An optimizer is traced parameter by parameter; inductor takes its time for every kernel.
    model = torch.nn.Sequential(model.embed, model.head)
if backend == "inductor" and tiny.DEVICE == "cpu":
    import torch._inductor.config

    # Nor is it tried what the processor can, and headers compiled ahead pay for more kernels.
    how["options"] = {"cpp.simdlen": 1}
    torch._inductor.config.cpp_cache_precompile_headers = False
    torch._inductor.config.cpp.vec_isa_ok = False
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def forward(ids):
    return tiny.loss_of(model(ids), ids)


def train(ids):
    loss = forward(ids)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


if what in ("model", "calling"):
    called = torch.compile(model, **how)

    def forward(ids):
        return tiny.loss_of(called(ids), ids)

elif what == "place":
    model.compile(backend=backend)
elif what == "layers":
    for number, layer in enumerate(model.layers):
        model.layers[number] = torch.compile(layer, backend=backend)
elif what == "step":
    train = torch.compile(train, backend=backend)
for number, ids in enumerate(tiny.batches()):
    if backend == "reduce-overhead":
        torch.compiler.cudagraph_mark_step_begin()
    with tiny.marked(number):
        loss = train(ids)
    tiny.say(number, loss)
tiny.tell_compiled()
