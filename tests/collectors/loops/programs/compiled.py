"""A compiled loop. Words: what is compiled (model, place, layers, step, calling), and the backend.

The backend `reduce-overhead` replays CUDA graphs of the model. With `calling` the layers override
`__call__`, as the checkpointable layers of transformers up to 5.19 do.
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
    # Fewer parameters and kernels compile faster.
    model = torch.nn.Sequential(model.embed, model.head)
if backend == "inductor":
    import torch._inductor.config

    torch._inductor.config.cpp_cache_precompile_headers = False  # it leaves files behind
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
