"""ACP-SGD: alternately compressed Power-SGD.

Zhang et al., "Evaluation and Optimization of Gradient Compression for Distributed Deep Learning",
ICDCS 2023. Like Power-SGD, it approximates a gradient matrix M by a low-rank product P Qᵀ, but
computes and sends only one of the two factors per step, in turn:

- a step that sends P: Q of the previous step is orthogonalized, P = M Q;
- a step that sends Q: P of the previous step is orthogonalized, Q = Mᵀ P.

The orthogonal factor is the same on every rank, so one all-reduce of the sent factors gives the
mean approximation. A rank's approximation error is added to its next gradient (error feedback).
"""

from __future__ import annotations

from typing import Any

import torch

from ._hook import BucketHook, Codec, Compression, Received, check_rank

_SEED = 20230718


class _Matrix:
    __slots__ = ("basis", "residual", "sends_left")

    def __init__(self, basis: torch.Tensor, residual: torch.Tensor) -> None:
        self.basis = basis
        self.residual = residual
        self.sends_left = True


class AlternatingLowRank(Codec):
    """The codec of ACP-SGD; `rank` is reduced to the shorter side of a matrix if necessary.

    The residual has at least single precision: in bf16, small gradients added to a large residual
    would be lost in rounding.
    """

    is_summable = True

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._matrices: dict[torch.Tensor, _Matrix] = {}
        # Initial factors are drawn on the CPU in the order of first use, so that all ranks begin
        # with the same Q.
        self._generator = torch.Generator().manual_seed(_SEED)

    def takes(self, gradient: torch.Tensor) -> bool:
        if not super().takes(gradient):
            return False
        row_count, column_count = as_matrix(gradient).shape
        return self._rank * (row_count + column_count) < 2 * row_count * column_count

    def encode(self, parameter: torch.Tensor, gradient: torch.Tensor) -> list[torch.Tensor]:
        state = self._matrices.get(parameter)
        if state is None:
            state = self._matrices[parameter] = self._new(gradient)
        matrix = state.residual.add_(as_matrix(gradient))
        state.basis = torch.linalg.qr(state.basis).Q
        factor = matrix @ state.basis if state.sends_left else matrix.T @ state.basis
        converted = factor.to(gradient.dtype)
        matrix.sub_(self._approximation(state, converted.to(matrix.dtype)))
        return [converted]

    def decode(self, parameter: torch.Tensor, gradient: torch.Tensor, received: Received) -> None:
        state = self._matrices[parameter]
        ((mean,),) = received
        mean = mean.to(state.residual.dtype)
        as_matrix(gradient).copy_(self._approximation(state, mean))
        state.basis = mean
        state.sends_left = not state.sends_left

    def residual(self, parameter: torch.Tensor) -> torch.Tensor:
        return self._matrices[parameter].residual

    @staticmethod
    def _approximation(state: _Matrix, factor: torch.Tensor) -> torch.Tensor:
        return factor @ state.basis.T if state.sends_left else state.basis @ factor.T

    def _new(self, gradient: torch.Tensor) -> _Matrix:
        dtype = torch.promote_types(gradient.dtype, torch.float32)
        row_count, column_count = as_matrix(gradient).shape
        rank = min(self._rank, row_count, column_count)
        basis = torch.randn(column_count, rank, generator=self._generator, dtype=dtype)
        residual = gradient.new_zeros((row_count, column_count), dtype=dtype)
        return _Matrix(basis.to(gradient.device), residual)


def as_matrix(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.view(gradient.shape[0], -1)


def install(ddp_model: Any, *, rank: int = 4) -> Compression:
    check_rank(rank)
    compression = Compression("acpsgd", {"rank": rank})
    return BucketHook(AlternatingLowRank(rank), compression, ddp_model.process_group).install(
        ddp_model
    )
