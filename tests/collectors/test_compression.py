"""Gradient compression: the algebra of each method."""

import math

import pytest

from tracekit.collectors.training.compression import install, methods
from tracekit.errors import UsageError

torch = pytest.importorskip("torch")

from tracekit.collectors.training.compression._hook import pack, unpack  # noqa: E402
from tracekit.collectors.training.compression.acpsgd import AlternatingLowRank  # noqa: E402
from tracekit.collectors.training.compression.signsgd import (  # noqa: E402
    MajorityVote,
    pack_bits,
    unpack_bits,
)
from tracekit.collectors.training.compression.topk import Sparsifier  # noqa: E402


def random(*shape, seed=0, dtype=None):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype or torch.float64)


def reduced_step(codecs, parameters, gradients):
    sent = [c.encode(p, g) for c, p, g in zip(codecs, parameters, gradients, strict=True)]
    received = sent
    if codecs[0].is_summable:
        received = [[sum(message[0] for message in sent) / len(sent)]]
    decoded = [gradient.clone() for gradient in gradients]
    for codec, parameter, gradient in zip(codecs, parameters, decoded, strict=True):
        codec.decode(parameter, gradient, received)
    return decoded


def test_acpsgd_sends_one_factor_a_step_in_turn():
    codec, parameter = AlternatingLowRank(rank=2), torch.zeros(6, 9)
    shapes = []
    for step in range(4):
        (sent,) = codec.encode(parameter, random(6, 9, seed=step))
        codec.decode(parameter, random(6, 9), [[sent]])
        shapes.append(tuple(sent.shape))
    assert shapes == [(6, 2), (9, 2), (6, 2), (9, 2)]
    # Tensors that its factors would not make smaller are left alone.
    codec = AlternatingLowRank(rank=4)
    sizes = [(64, 32), (64, 8, 2, 2), (4, 4), (4096,)]
    assert [codec.takes(torch.zeros(size)) for size in sizes] == [True, True, False, False]


def test_acpsgd_of_full_rank_is_the_exact_mean():
    codecs = [AlternatingLowRank(rank=5) for _ in range(3)]
    parameters = [torch.zeros(5, 5) for _ in range(3)]
    for step in range(4):
        gradients = [random(5, 5, seed=10 * step + rank) for rank in range(3)]
        for decoded in reduced_step(codecs, parameters, gradients):
            torch.testing.assert_close(decoded, sum(gradients) / 3, rtol=0, atol=1e-12)
        assert all(
            c.residual(p).abs().max() < 1e-12 for c, p in zip(codecs, parameters, strict=True)
        )


def test_acpsgd_recovers_a_gradient_that_has_the_rank():
    codec, parameter = AlternatingLowRank(rank=2), torch.zeros(20, 30)
    gradient = random(20, 2) @ random(2, 30, seed=1)
    transmitted = sum(
        (reduced_step([codec], [parameter], [gradient])[0] for _ in range(6)),
        start=torch.zeros(20, 30, dtype=torch.float64),
    )
    torch.testing.assert_close(transmitted, 6 * gradient, rtol=0, atol=1e-9)


def test_acpsgd_of_a_zero_gradient_is_zero_and_finite():
    codec, parameter = AlternatingLowRank(rank=2), torch.zeros(6, 9)
    for gradient in (torch.zeros(6, 9), torch.zeros(6, 9), random(6, 9, dtype=torch.float32)):
        (decoded,) = reduced_step([codec], [parameter], [gradient])
        assert torch.isfinite(decoded).all()
        assert decoded.any() == gradient.any()


@pytest.mark.parametrize("method", ["acpsgd", "topk"])
@pytest.mark.parametrize("rank_count", [1, 3])
def test_error_feedback_conserves_the_gradients(method, rank_count):
    """The transmitted gradients and the residuals sum to all gradients."""
    codecs = [codec_of(method) for _ in range(rank_count)]
    parameters = [torch.zeros(12, 10) for _ in range(rank_count)]
    transmitted = torch.zeros(12, 10, dtype=torch.float64)
    total = torch.zeros(12, 10, dtype=torch.float64)
    for step in range(25):
        gradients = [random(12, 10, seed=100 * step + rank) for rank in range(rank_count)]
        transmitted += reduced_step(codecs, parameters, gradients)[0]
        total += sum(gradients) / rank_count
    left = (
        sum(c.residual(p).view(12, 10) for c, p in zip(codecs, parameters, strict=True))
        / rank_count
    )
    assert left.abs().max() > 0.1
    torch.testing.assert_close(transmitted + left, total, rtol=0, atol=1e-12)


def test_error_feedback_takes_in_the_rounding_of_bf16():
    codec, parameter = codec_of("topk"), torch.zeros(12, 10)
    transmitted, total = torch.zeros(12, 10), torch.zeros(12, 10)
    for step in range(25):
        gradient = random(12, 10, seed=step).to(torch.bfloat16)
        total += gradient
        transmitted += reduced_step([codec], [parameter], [gradient])[0]
    left = codec.residual(parameter)
    assert left.dtype == torch.float32
    torch.testing.assert_close(transmitted + left.view(12, 10), total, rtol=0, atol=1e-5)


def codec_of(method):
    return AlternatingLowRank(rank=2) if method == "acpsgd" else Sparsifier(density=0.05)


def test_topk_sends_the_largest_magnitudes():
    codec, parameter = Sparsifier(density=0.25), torch.zeros(2, 4)
    gradient = torch.tensor([[1.0, -8.0, 2.0, 0.5], [-3.0, 7.0, 0.0, 4.0]])
    indices, values = codec.encode(parameter, gradient)
    assert dict(zip(indices.tolist(), values.tolist(), strict=True)) == {1: -8.0, 5: 7.0}
    assert indices.dtype == torch.int32
    left = [[1.0, 0.0, 2.0, 0.5], [-3.0, 0.0, 0.0, 4.0]]
    assert codec.residual(parameter).view(2, 4).tolist() == left


def test_topk_averages_the_choices_of_the_ranks():
    codecs, parameters = [Sparsifier(density=0.5) for _ in (0, 1)], [torch.zeros(1, 4)] * 2
    gradients = [torch.tensor([[4.0, 2.0, 0.1, 0.2]]), torch.tensor([[6.0, 0.3, 0.4, -2.0]])]
    for decoded in reduced_step(codecs, parameters, gradients):
        assert decoded.tolist() == [[5.0, 1.0, 0.0, -1.0]]


@pytest.mark.parametrize("density", [1.0, 0.3, 1e-9])
def test_topk_sends_the_requested_share(density):
    codec, parameter = Sparsifier(density), torch.zeros(10, 7)
    indices, values = codec.encode(parameter, random(10, 7))
    assert len(set(indices.tolist())) == values.numel() == math.ceil(density * 70)
    assert bool(codec.residual(parameter).any()) == (density < 1)


def test_signsgd_follows_the_majority():
    gradients = [
        torch.tensor([[1.0, -2.0, 3.0, -4.0]]),
        torch.tensor([[5.0, 6.0, -1.0, -8.0]]),
        torch.tensor([[-0.5, -1.0, -1.5, -3.0]]),
    ]
    codecs = [MajorityVote(rank) for rank in range(3)]
    scale = (10 / 4 + 20 / 4 + 6 / 4) / 3
    for decoded in reduced_step(codecs, [torch.zeros(1, 4)] * 3, gradients):
        assert decoded.tolist() == [[scale, -scale, -scale, -scale]]


def test_signsgd_leaves_a_tie_alone():
    codecs, parameters = [MajorityVote(0), MajorityVote(1)], [torch.zeros(1, 2)] * 2
    gradients = [torch.tensor([[1.0, 2.0]]), torch.tensor([[-1.0, 4.0]])]
    for decoded in reduced_step(codecs, parameters, gradients):
        assert decoded.tolist() == [[0.0, 2.0]]


@pytest.mark.parametrize("rank_count", [1, 2, 3, 4])
def test_signsgd_does_not_let_zeros_drift(rank_count):
    """A row of an embedding that no token used stays where it is, over two steps at the latest."""
    codecs = [MajorityVote(rank) for rank in range(rank_count)]
    parameters = [torch.zeros(3, 5) for _ in codecs]
    moved = torch.zeros(3, 5)
    for _ in range(2):
        gradients = [torch.zeros(3, 5) for _ in codecs]
        for gradient in gradients:
            gradient[0] = 1.0
        moved += reduced_step(codecs, parameters, gradients)[0]
    assert moved[1:].tolist() == [[0.0] * 5] * 2
    assert moved[0].min() > 0


@pytest.mark.parametrize("count", [1, 7, 8, 9, 1000])
def test_bits_come_out_as_they_went_in(count):
    bits = random(count) > 0
    packed = pack_bits(bits)
    assert packed.numel() == math.ceil(count / 8)
    assert unpack_bits(packed, count).bool().tolist() == bits.tolist()


def test_messages_of_mixed_types_come_out_as_they_went_in():
    messages = [
        [torch.arange(3, dtype=torch.int32), random(3).to(torch.bfloat16)],
        [random(2, 2), torch.tensor([1, 2, 255], dtype=torch.uint8)],
    ]
    unpacked = unpack(pack(messages), messages)
    for message, others in zip(messages, unpacked, strict=True):
        for one, other in zip(message, others, strict=True):
            assert one.dtype == other.dtype
            assert torch.equal(one, other)


def test_every_method_is_found():
    assert methods() == ["acpsgd", "powersgd", "signsgd", "topk"]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("zip", {}),
        ("acpsgd", {"rank": 0}),
        ("topk", {"density": 0.0}),
        ("topk", {"density": 1.5}),
        ("powersgd", {"start_step": 1}),
    ],
)
def test_wrong_settings_are_refused(method, options):
    with pytest.raises(UsageError):
        install(object(), method, **options)
