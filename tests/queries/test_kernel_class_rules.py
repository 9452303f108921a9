# ruff: noqa: E501
"""The kernel-class rules, checked as data: no store is needed.

The rules are applied as the loader applies them, as one CASE of constant RE2 patterns in DuckDB.
Tests on the public traces look for them in the folder TRACEKIT_PUBLIC_TRACES, else in
`../shared/traces` beside the repository, and skip where there is none.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
RULES_FILE = REPOSITORY / "queries" / "rules" / "kernel_class.toml"
TRACES_FOLDER = Path(
    os.environ.get("TRACEKIT_PUBLIC_TRACES") or REPOSITORY.parent / "shared" / "traces"
)
TRACE_FILES = (
    sorted(str(path.relative_to(TRACES_FOLDER)) for path in TRACES_FOLDER.rglob("*.json.gz"))
    if TRACES_FOLDER.is_dir()
    else []
)
NO_TRACES = f"no public traces in {TRACES_FOLDER}"
on_every_trace = pytest.mark.parametrize(
    "file",
    TRACE_FILES or [pytest.param("", marks=pytest.mark.skip(reason=NO_TRACES))],
    ids=[name.removesuffix(".json.gz") for name in TRACE_FILES] or ["none"],
)

COMPUTE = (
    *("gemm", "attention", "conv", "elementwise", "reduction", "softmax", "norm", "rope"),
    *("embedding", "optimizer", "quantize", "moe_routing", "sort_topk", "layout"),
    *("triton_fused", "memset", "other"),
)
COMM = (
    *("comm_allreduce", "comm_allgather", "comm_reducescatter", "comm_alltoall"),
    *("comm_broadcast", "comm_p2p", "comm_other"),
)
MEMCPY = ("memcpy_h2d", "memcpy_d2h", "memcpy_d2d")
DEVICE_CATEGORIES = {
    *("kernel", "gpu_memcpy", "gpu_memset"),
    *("Kernel", "Memcpy", "Memset", "mtia_ccp_events"),
}
OPERATOR_CATEGORIES = {"cpu_op", "Operator"}
MOST_UNCLASSIFIED_PCT = 1.0

Named = tuple[str, str]
"""A category and a name."""


@functools.cache
def document() -> dict[str, Any]:
    return tomllib.loads(RULES_FILE.read_text(encoding="utf-8"))


def rules() -> list[dict[str, str]]:
    listed: list[dict[str, str]] = document()["rule"]
    return listed


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@functools.cache
def first_match_sql(applies_to: str) -> str:
    """The CASE that gives the position of the first rule that matches `name` and `category`."""
    branches = []
    for position, rule in enumerate(rules()):
        if rule["applies_to"] != applies_to:
            continue
        condition = f"regexp_matches(name, {quoted(rule['pattern'])})"
        if "category" in rule:
            condition += f" AND regexp_matches(category, {quoted(rule['category'])})"
        branches.append(f"WHEN {condition} THEN {position}")
    return f"CASE {' '.join(branches)} END"


def winners(applies_to: str, named: Iterable[Named]) -> dict[Named, int | None]:
    """Which rule wins each name, by its position in the file; None where no rule matches."""
    distinct = sorted(set(named))
    if not distinct:
        return {}
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE named (category VARCHAR, name VARCHAR)")
        connection.executemany("INSERT INTO named VALUES (?, ?)", distinct)
        rows = connection.execute(
            f"SELECT category, name, {first_match_sql(applies_to)} FROM named"
        ).fetchall()
    return {(category, name): position for category, name, position in rows}


def classes(applies_to: str, named: Iterable[Named]) -> dict[Named, str]:
    return {
        key: "other" if position is None else rules()[position]["class"]
        for key, position in winners(applies_to, named).items()
    }


# ---- the file itself -----------------------------------------------------------------------------


def test_every_class_has_its_kind() -> None:
    expected = {
        **dict.fromkeys(COMPUTE, "compute"),
        **dict.fromkeys(COMM, "comm"),
        **dict.fromkeys(MEMCPY, "memcpy"),
    }
    assert document()["kinds"] == expected


def test_rules_hold_what_they_must() -> None:
    for position, rule in enumerate(rules()):
        where = (position, rule)
        assert rule["class"] in document()["kinds"], where
        assert rule["applies_to"] in ("device", "cpu"), where
        assert all(rule[key].strip() for key in ("pattern", "source", "example")), where
        assert not set(rule) - {
            *("class", "applies_to", "pattern", "category", "source", "example", "trace")
        }, where
        assert not (rule["applies_to"] == "cpu" and rule["class"].startswith("memcpy_")), where


def test_patterns_compile_as_re2() -> None:
    patterns = [rule["pattern"] for rule in rules()]
    patterns += [rule["category"] for rule in rules() if "category" in rule]
    with duckdb.connect() as connection:
        for pattern in patterns:
            sql = f"SELECT regexp_matches('name', {quoted(pattern)})"
            assert connection.execute(sql).fetchone() is not None, pattern


def test_no_pattern_matches_an_empty_or_unknown_name() -> None:
    names = [("kernel", name) for name in ("", "x", "void acme::frobnicate<int>(int*)")]
    for applies_to in ("device", "cpu"):
        assert set(winners(applies_to, names).values()) == {None}


def test_every_rule_wins_its_own_example() -> None:
    for applies_to in ("device", "cpu"):
        expected: dict[Named, int] = {}
        for position, rule in enumerate(rules()):
            if rule["applies_to"] == applies_to:
                expected[(example_category(rule), rule["example"])] = position
        assert winners(applies_to, expected) == expected
        assert len(expected) == sum(rule["applies_to"] == applies_to for rule in rules())


def example_category(rule: dict[str, str]) -> str:
    """A category of today that the rule's `category`, if any, accepts."""
    if "category" not in rule:
        return "kernel" if rule["applies_to"] == "device" else "cpu_op"
    accepted = [name for name in sorted(DEVICE_CATEGORIES) if re.search(rule["category"], name)]
    return max(accepted)


def test_old_and_new_categories_are_copies_and_sets_alike() -> None:
    expected = {
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)"): "memcpy_h2d",
        ("Memcpy", "Memcpy HtoD (Pageable -> Device)"): "memcpy_h2d",
        ("gpu_memcpy", "CopyHostToDevice"): "memcpy_h2d",
        ("gpu_memcpy", "Memcpy M2D(M -> D)"): "memcpy_h2d",
        ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)"): "memcpy_d2h",
        ("gpu_memcpy", "MEMORY_COPY_DEVICE_TO_HOST"): "memcpy_d2h",
        ("gpu_memcpy", "Memcpy DtoD (Device -> Device)"): "memcpy_d2d",
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)"): "memcpy_d2d",
        ("gpu_memcpy", "Memcpy HtoH (Pageable -> Pinned)"): "memcpy_d2d",
        ("gpu_memset", "Memset (Device)"): "memset",
        ("Memset", "Memset (Unknown)"): "memset",
    }
    assert classes("device", expected) == expected


# Spellings of kernels that the public traces do not hold, or hold little of; arguments shortened.
# Each line is the class and the name; most contain a word of another class.
TRAPS = """
comm_allreduce | void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals, vllm::Signal*, __nv_bfloat16*, int, int)
comm_allreduce | void sglang::cross_device_reduce_2stage<__half, 8>(sglang::RankData*, sglang::RankSignals, sglang::Signal*, __half*, int, int)
comm_allreduce | void sglang::all_reduce_pull_res_kernel<8u, false, true>()
comm_allreduce | void sglang::moe_finalize_all_reduce_kernel
comm_allreduce | ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)
comm_allreduce | ncclAllReduceRingLLKernel_sum_f32(ncclWorkElem)
comm_allreduce | void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8, false, false>(flashinfer::trtllm_allreduce_fusion::AllReduceFusionParams<__nv_bfloat16>)
comm_allreduce | void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>(c10::BFloat16**, unsigned long, unsigned long, unsigned int**, unsigned long, unsigned long)
comm_allreduce | void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half>>()
comm_allgather | ncclSymkDevKernel_AllGather_LL(ncclSymkDevWorkArgs4K)
comm_allgather | ncclAllGatherRingLLKernel_copy_i8(ncclWorkElem)
comm_allgather | void cross_device_all_gather<8>(RankData*, RankSignals, Signal*, array_t<unsigned long, 2>*, int, int)
comm_reducescatter | ncclSymkDevKernel_ReduceScatter_LL_sum_f32(ncclSymkDevWorkArgs4K)
comm_reducescatter | ncclReduceScatterRingLLKernel_sum_f16(ncclColl)
comm_reducescatter | void sglang::cross_device_reduce_scatter<__nv_bfloat16, 8>(sglang::RankData*)
comm_broadcast | ncclBroadcastRingLLKernel_copy_i8(ncclColl)
comm_p2p | ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)
comm_p2p | ncclSendRecvKernel_copy_i8(ncclWorkElem)
comm_p2p | kuserbuffers_pushsend(int*, int*, int4*, int4*, int)
comm_other | ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)
comm_other | ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)
comm_other | rccl_main_kernel
comm_other | nvshmemi_proxy_rma_signal_entrypoint(rma_memdesc_t*, rma_memdesc_t*)
comm_other | barrier_on_stream_kernel_threadgroup(int, int)
comm_alltoall | void deep_ep::internode_ll::dispatch<true, true, 6144>(void*, void*, int*, long*, int*, int*)
comm_alltoall | void deep_ep::intranode::cached_notify_combine<2>(void**, int*, int, int, int, int**, int)
comm_alltoall | void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*, int*, int*, int*, bool*, int, int, int, int)
comm_alltoall | void dpsk::ep::internode::dispatch_ll<7168>()
comm_alltoall | void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(mori::moe::EpDispatchCombineArgs<hip_bfloat16>)
comm_alltoall | void tensorrt_llm::kernels::mnnvl_throughput::moeA2ADispatchKernel<8>()
comm_alltoall | void primus_turbo::deep_ep::intranode::cached_notify_dispatch<8>(int const*, int, void**, int**, int)
memcpy_d2d | __amd_rocclr_copyBuffer
memcpy_d2d | __amd_rocclr_copyBufferRectAligned
memset | __amd_rocclr_fillBufferAligned
triton_fused | triton_poi_fused__scaled_dot_product_flash_attention_cat_transpose_view_10
triton_fused | triton_red_fused__to_copy_add_addmm_as_strided_fmha_v3_fwd_mean_mul_neg_pow_rsqrt_stack_unbind_unsqueeze_view_24
triton_fused | triton_per_fused_native_layer_norm_0
triton_fused | triton_
triton_fused | triton_unk_fused_3
triton_fused | triton_poi_fused_all_gather_into_tensor_wait_tensor_1
gemm | triton_tem_fused_mm_t_view_14
gemm | triton_mm_plus_mm
gemm | void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>>>>()
gemm | _ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_17GroupProblemShapeIN4cute5tupleIJlllEEEEENS1_10collective13CollectiveMma
gemm | void cutlass::device_kernel<vllm::cutlass_3x_gemm_fp8_blockwise<cutlass::bfloat16_t>>()
gemm | nvjet_tst_384x8_64x4_4x1_v_bz_TNT
gemm | nvjet_sm100_tst_8x64_64x16_4x1_v_bz_TNN
gemm | ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_32x3_nn
gemm | ampere_fp16_s1688gemm_fp16_128x128_ldg8_relu_f2f_stages_32x1_tn
gemm | turing_h1688gemm_128x128_ldg8_nn
gemm | cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_nn_align8
gemm | sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize32x32x64_stage6_warpsize2x2x1_tensor16x8x16_execute_kernel_trt
gemm | void deep_gemm::sm90_fp8_gemm_1d2d_impl<(cute::UMMA::Major)0, 0u, 4096u, 1024u, 1u, 256u, 128u, 128u, 128u, 128u, 128u, 3u, 128u, 256u, 2u, true, 132u, (deep_gemm::GemmType)0, deep_gemm::epilogue::transform::EpilogueIdentity>(float*, int*)
gemm | void deep_gemm::sm90_tf32_hc_prenorm_gemm_impl<24u, 16384u, 64u>(unsigned int)
gemm | void dpsk::gemm::fp8_gemm_kernel<4096u, 7168u, 128u, 128u, 128u, 5u, 128u, 128u, 2u, (dpsk::gemm::GemmType)1>(__nv_bfloat16*, float*, int*, unsigned int, unsigned int, CUtensorMap_st)
gemm | void marlin::Marlin<1125899906910725l, 1125899906843648l, 1125899906910725l, 256, 4, 16, 4, 4, false>(int4 const*)
gemm | void marlin_moe_wna16::Marlin<1125899906909960l, 562949953487106l, 1125899906909960l, 2814749767106568l, 128, 4, 8, 4, false, 4, 2, false>(int4 const*)
gemm | void vllm::awq::gemm_forward_4bit_cuda_m16nXk32<128>(int)
gemm | void vllm::gptq::gemm_half_q_half_gptq_4bit_kernel<true, 8>(__half const*)
gemm | awq_gemm_kernel
gemm | fused_moe_kernel
gemm | fused_moe_kernel_gptq_awq
gemm | void fused_moe::run_global<fused_moe::Fused_Moe_Kernel_sm80<cutlass::bfloat16_t, cutlass::bfloat16_t, cutlass::bfloat16_t, 32, 128, 64, 4, (fused_moe::Activation_Type)3> >
gemm | void vllm::moe::moe_wna16_gemm_kernel<__nv_bfloat16, 4, 32>(__nv_bfloat16 const*)
gemm | mfma_moe1_silu_mul_afp8_wfp4_fp8_t32x128x256_pm1
gemm | void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<ck::tensor_layout::gemm::RowMajor>>()
gemm | void ck::kernel_moe_gemm<ck::GridwiseMoeGemm<ck::tensor_layout::gemm::RowMajor>>()
gemm | aiter::fp8gemm_bf16_blockscale_BpreShuffle_32x128
gemm | hgemm_bf16_32x64x128x5_SPK8_W2x2x1_BLDS1_TN_AS1_0
gemm | _gemm_a8w8_blockscale_kernel_GROUP_K_128_GROUP_N_128_BLOCK_SIZE_M_128
gemm | void wvSplitKrc_<__hip_bfloat16, 64, 16, 4, 8, 1, 64>()
gemm | _w8a8_block_fp8_matmul
gemm | aiter::fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_32x256
gemm | _sgmv_shrink_kernel
gemm | _lora_expand_kernel
gemm | bmm_Bfloat16_E4m3E4m3_Fp32_t128x8x128u2_s4_et128x8_m128x8x32_cga1x1x1
gemm | kernel_cutlass_kernel___main__PersistentDenseGemmKernel_object_at__TiledMMA_ThrLayoutVMNK11110000
gemm | void tensorrt_llm::kernels::cutlass_kernels::computeStridesTmaWarpSpecializedKernel<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16>(int)
gemm | void rocblas_gemvt_warp_reduce_kernel<false, 1024, int, float>()
gemm | void mul_mat_vec_q4_K<c10::Half>(void const*)
gemm | matmul_kernel
gemm | gemm_kernel
gemm | _scaled_mm_kernel
gemm | void at::native::tinygemm_m16n8k16_chunk_kernel<at::native::ALayout_RM>()
gemm | fp8_gemm_kernel
gemm | _scaled_mm_kernel_rank_1
attention | triton_tem_fused_flex_attention_0
attention | void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, cute::tuple<cute::C<64>, cute::C<192>, cute::C<64> >, 64, cutlass::bfloat16_t, float, cutlass::arch::Sm90, false, true, false, true, true, false, false, true, true, true, false, false, cutlass::bfloat16_t, 1>, flash::VarlenDynamicPersistentTileScheduler<64, 192> > > >
attention | void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>, true>(Flash_fwd_params)
attention | void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8>>(Flash_bwd_params)
attention | void flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<64, 128, 128, 8>>(Flash_bwd_params)
attention | void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::bfloat16_t>, 4, 1, true>(flash::Flash_fwd_params)
attention | void flash::prepare_varlen_num_blocks_kernel<1, true>(int, int, int, int const*)
attention | kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__tensorptrbf16gmem_0
attention | kernel_cutlass_kernel___main__BlackwellFusedMultiHeadAttentionForward_object_at__TiledMMA_ThrLayoutVMNK11110000
attention | cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1_kernel0_0
attention | void cudnn::fusion::compute_dot_do_o_specialized<true, __nv_bfloat16, 128, false>(cudnn::fusion::Params)
attention | fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t, cutlass::arch::Sm80, true, 64, 128, 128, true, true>::Params)
attention | fmha_cutlassB_f16_aligned_64x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<cutlass::half_t>::Params)
attention | fmhaSm100fKernel_QkvBfloat16OBfloat16H64PagedKvCausalP64VarSeqQ8Kv128StaticSwap
attention | kernel_mha
attention | aiter::fmha_bwd_hd128_bf16_causal_a32_rtz_psskddv
attention | std::enable_if<!(kattr_no_packed_fp32_ops_v<ck_tile::gfx950_t>), void>::type ck_tile::kentry<2, ck_tile::FmhaBwdDQDKDVKernel<ck_tile::BlockFmhaBwdDQDKDVPipelineKRKTRVR>>()
attention | void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)1, 128u, 2u, 2u, 8u, 8u, 4u, 1u, (flashinfer::PosEncodingMode)0, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, int, flashinfer::DefaultAttention<false, false, false, false> >, PagedParams>(PagedParams)
attention | void flashinfer::PrefillWithKVCacheKernel<flashinfer::CollectiveMainloop<128>>()
attention | void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u, 8u, 4u, float, __nv_bfloat16>(float*)
attention | void flashinfer::mla::BatchMLAPagedAttentionKernel<flashinfer::mla::KernelTraits<true, 2u, false>>()
attention | void vllm::paged_attention_v2_kernel<__nv_bfloat16, __nv_bfloat16, 128, 16, 128, (vllm::Fp8KVCacheDataType)0, false, 512>(float*)
attention | void vllm::merge_attn_states_kernel<__nv_bfloat16, 128>(__nv_bfloat16*)
attention | void sm90::decode::sparse_fp8::flash_fwd_splitkv_mla_fp8_sparse_kernel<sm90::decode::sparse_fp8::KernelTemplate<(ModelType)1, 64>>(SparseAttnDecodeParams)
attention | void sm90::fwd::sparse_attn_fwd_kernel<sm90::fwd::KernelTemplate<512, true>>(SparseAttnFwdParams)
attention | void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8, cutlass::bfloat16_t, 512>, true, SharedStorageMLA>(Flash_fwd_mla_params)
attention | get_mla_metadata_kernel(Mla_metadata_params)
attention | void deep_gemm::sm90_fp8_paged_mqa_logits<1u, 64u, 128u>(unsigned int)
attention | _fp8_paged_mqa_logits_kernel
attention | _sparse_attn_decode_partial_kernel
attention | kernel_unified_attention
attention | _fwd_kernel
attention | _fwd_kernel_stage2
attention | _fwd_grouped_kernel_stage1
attention | _fwd_kernel_flash_decode_stage1
attention | _attn_fwd
attention | bwd_kernel_dk_dv
attention | bwd_preprocess
attention | _fwd_kernel_0d1d2d3de4de
attention | chunk_gated_delta_rule_fwd_kernel_h_blockdim64
attention | chunk_fwd_kernel_o
attention | fused_recurrent_gated_delta_rule_fwd_kernel
attention | chunk_scaled_dot_kkt_fwd_kernel
attention | recompute_w_u_fwd_kernel
attention | _ZN5aiter20mla_pfl_bf16_a16w16_causal_subQ128_mqa128E
rope | void sglang::fused_rope_kernel<true, 128l, false, __nv_bfloat16, __nv_bfloat16, long, 16u>(sglang::FusedRopeParams)
rope | void vllm::deepseek_v4_fused_ops::fusedDeepseekV4QNormRopeKVRopeQuantInsertKernelReducedGrid<c10::BFloat16, 64>(c10::BFloat16 const*)
rope | void tensorrt_llm::kernels::applyBiasRopeUpdateKVCacheV2<__nv_bfloat16, __nv_bfloat16, 256, 128, false, false, false, true, tensorrt_llm::kernels::KVBlockArray, (tensorrt_llm::kernels::RotaryPositionEmbeddingType)0>(int)
rope | void tensorrt_llm::kernels::fusedQKNormRopeKernel<128, false>(void*, int, int, int)
rope | void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<true, 128u, 8u, 16u, __nv_bfloat16, long>(__nv_bfloat16*)
rope | _triton_rope
rope | _rope_embedding
rope | _triton_mrope_forward
rope | _fused_qk_norm_rope_store_kernel
rope | _inverse_rope_gptj_kernel
rope | _rotary_kernel
rope | _fused_kv_compress_norm_rope_insert_sparse_attn
layout | void vllm::concat_and_cache_mla_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(__nv_bfloat16 const*)
layout | void sglang::store_kvcache<512l, 512l, 1, false, long>(sglang::StoreKVCacheParams)
layout | _fwd_kernel_destindex_copy_kv
layout | void flashinfer::AppendPagedKVCacheKernel<128u, 8u, __nv_bfloat16, int>(flashinfer::paged_kv_t<__nv_bfloat16, int>)
layout | void at::native::detail::chunk_cat_cuda_kernel<float, c10::BFloat16>(float**, c10::BFloat16*, long*)
layout | at::native::detail::split_with_sizes_copy_out_contiguous_no_cast_kernel(char**, char**, long*, long*, long*, long, long)
layout | void gptq_marlin_repack_kernel<256, 4, false>(unsigned int const*)
layout | void marlin::gptq_marlin_repack_kernel<256, 4, false>(unsigned int const*)
layout | void deep_gemm::transpose_fp32<512, 64>(float const*, float const*)
layout | void tensorTransformGeneric<__nv_bfloat16, __nv_bfloat16, float, true, false, false, (cudnnKernelDataType_t)0>(cudnnTensorTransformStruct, tensorTransformParams)
layout | void gpu_copy_convert_kernel(int)
moe_routing | void vllm::moe::topkGatingSoftmax<8, 128, 4, 16, 32, int>(float const*)
moe_routing | void vllm::moe::topkGating<8, 128, 4, 16, 32, int, __nv_bfloat16, (vllm::moe::ScoringFunc)0>(int)
moe_routing | void vllm::moe::moe_align_block_size_kernel<int>(int const*)
moe_routing | void vllm::moe::count_and_sort_expert_tokens_kernel<int>(int const*)
moe_routing | void moe_align_block_size_small_batch_expert_kernel<int, 256>(int const*, int*, int*, int*, int, int, unsigned long, bool, int)
moe_routing | void vllm::moe::topkGatingSoftplusSqrt<6, 384, 4, 8>(float const*)
moe_routing | void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<__nv_bfloat16, __nv_bfloat16, (tensorrt_llm::kernels::cutlass_kernels::TmaWarpSpecializedGroupedGemmInput::FpXBlockScalingType)2, false>(int)
moe_routing | void tensorrt_llm::kernels::cutlass_kernels::finalizeMoeRoutingKernel<__nv_bfloat16, __nv_bfloat16>(int)
moe_routing | void tensorrt_llm::kernels::cutlass_kernels::fusedBuildExpertMapsSortFirstTokenKernel<32, 8, 8>(int)
moe_routing | void tensorrt_llm::kernels::cutlass_kernels::blockExpertPrefixSumKernel<1024>(int)
moe_routing | void tensorrt_llm::kernels::customMoeRoutingKernel<__nv_bfloat16, float, int, 128, 8, false>(int)
moe_routing | _permute_kernel
moe_routing | _unpermute_kernel
moe_routing | _sort_chunks_by_map_kernel
moe_routing | _fwd_kernel_ep_scatter_1
moe_routing | _fwd_kernel_ep_gather
moe_routing | void aiter::opus_moe_sorting_entry<aiter::MoeSortingKernel>()
moe_routing | moe_sum_kernel
moe_routing | moe_reduction_kernel_plain_bf16_topk6_md7168
moe_routing | void aiter::topk_softplus_kernel_opt<hip_bfloat16>()
moe_routing | _ZN5aiter24topk_softmax_kernelE
moe_routing | void moe_fused_gate_kernel_dynamic<float>()
moe_routing | topk_gating_softmax_kernel
moe_routing | void tensorrt_llm::kernels::deepseek_v3_topk_kernel<float>()
moe_routing | pre_reorder_triton_kernel
moe_routing | void ck_tile::MoeSortingKernel<ck_tile::MoeSortingProblem>()
norm | void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)
norm | kernel_cutlass_kernel_flashinfernormkernelsfused_add_rmsnormFusedAddRMSNormKernel_object_at__tensorptrbf16gmemalign128o512051201
norm | void transformer_engine::normalization::rmsnorm_fwd_general_kernel<transformer_engine::normalization::Kernel_traits<7168>>(int)
norm | _rms_norm_forward_kernel
norm | _layer_norm_fwd_1pass_kernel
norm | void cuApplyLayerNorm<float, float, float>(float*, float*)
norm | _rms_layernorm_forward
norm | _fused_rms_fp8_group_quant_kernel
norm | l2norm_fwd_kernel
norm | void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>(float, float)
norm | void layer_norm_kernel<float>()
norm | void at::native::(anonymous namespace)::cuComputePartGradGammaBeta<float, float, true>(float const*)
softmax | void scaled_upper_triang_masked_softmax_warp_forward<__nv_bfloat16, __nv_bfloat16, float, 11>(__nv_bfloat16*, __nv_bfloat16 const*, float, int, int, int)
softmax | void flashinfer::sampling::OnlineSoftmaxMapKernel<1024u>()
quantize | void per_token_group_quant_8bit_kernel<c10::BFloat16, c10::Float8_e4m3fn, true, true, float>(c10::BFloat16 const*)
quantize | _per_token_group_quant_fp8
quantize | void kQuantizeBlockwise<__nv_bfloat16, 4096, 4, 0, 0>(float*)
quantize | void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(float*)
quantize | void vllm::cvt_fp16_to_fp4<__nv_bfloat16, false>(int)
quantize | _ZN5aiter37dynamic_per_group_scaled_quant_kernelIDF16bE
quantize | void vllm::dynamic_per_token_scaled_fp8_quant_kernel<c10::BFloat16, c10::Float8_e4m3fn>()
quantize | act_quant_kernel
quantize | void vllm::awq::dequantize_weights(int*)
quantize | void tensorrt_llm::kernels::fp8_blockscale_gemm::scale_1x128_kernel<__nv_bfloat16, __nv_fp8_e4m3>()
optimizer | void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>>()
optimizer | void kOptimizerStatic8bit2StateBlockwise<__nv_bfloat16, 0, 256, 1>(__nv_bfloat16*)
optimizer | void multi_tensor_apply_kernel<TensorListMetadata<4>, LAMBStage1Functor<float>>()
optimizer | void transformer_engine::multi_tensor_apply_kernel<4, transformer_engine::multi_tensor_adam::AdamFunctorMaster<float>>()
optimizer | void multi_tensor_apply_kernel<TensorListMetadata<5, false>, transformer_engine::multi_tensor_adam::AdamFunctorMaster<float>>()
elementwise | void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, std::multiplies<float>, float>()
elementwise | void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(c10::BFloat16*, c10::BFloat16 const*, int)
elementwise | _swiglu_forward_kernel
elementwise | _silu_and_mul_kernel
elementwise | add_func_kernel_rank_1
elementwise | void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &silu>(__nv_bfloat16*)
elementwise | mul_broadcast_2d_kernel
elementwise | void at::native::elementwise_kernel_manual_unroll<128, 8, at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<c10::BFloat16> >(at::TensorIteratorBase&)>()
reduction | void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<1>, at::native::LpNormFunctor<float, (at::native::NormType)1, float, 1, 1, 0>, float*, int>()
reduction | liger_cross_entropy_kernel
reduction | void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*)
reduction | void multi_tensor_apply_kernel<TensorListMetadata<1>, L2NormFunctor<float>, float*, float*, bool, int>()
sort_topk | void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>()
sort_topk | void vllm::topKPerRowDecode<1024, true, false, true>()
sort_topk | void at::native::bitonicSortKVInPlace<2, -1, 16, 16, c10::BFloat16, long>()
sort_topk | void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float>>(float*)
conv | void causal_conv1d_channellast_fwd_kernel<Causal_conv1d_channellast_fwd_kernel_traits<128, 64, 4, __nv_bfloat16>, true>(ConvParamsBase)
conv | _causal_conv1d_fwd_kernel
conv | void implicit_convolve_sgemm<float, float, 128, 5, 5>()
conv | miopenSp3AsmConv_v30_3_1_gfx9_fp16_dot2_edc_f2x3_stride1
conv | gfx9_f3x2_fp32_stride1_group
conv | naive_conv_ab_nonpacked_fwd_nchw_half_double_half
embedding | void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel_sum_mean<float, long>(long const*)
other | at::cuda::(anonymous namespace)::spin_kernel(long)
other | _chunk_scan_fwd_kernel
other | void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128>>(SSMParamsBase)
other | void regular_fft<1024u, EPT<8u>>()
other | mhc_post_tilelang_kernel
other | void my_company::frobnicate<int>(int*)
other | hipLaunchSomething
"""


def test_names_that_mislead() -> None:
    expected: dict[Named, str] = {}
    for line in TRAPS.strip().splitlines():
        class_name, _, name = line.partition(" | ")
        expected[("kernel", name)] = class_name
    found = classes("device", expected)
    wrong = {
        name: (found[name], expected[name]) for name in expected if found[name] != expected[name]
    }
    assert wrong == {}


# ---- the public traces ---------------------------------------------------------------------------


class RawEvent(msgspec.Struct):
    """The fields of an event that are used here; times keep their decimal text."""

    ph: str = ""
    cat: str | None = None
    name: str | None = None
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = msgspec.Raw(b"0")
    dur: msgspec.Raw = msgspec.Raw(b"0")


class RawFile(msgspec.Struct, rename={"trace_events": "traceEvents"}):
    trace_events: list[RawEvent]


@dataclass(frozen=True, slots=True)
class Span:
    category: str
    name: str
    thread: tuple[str, str]
    start_ns: int
    end_ns: int

    @property
    def named(self) -> Named:
        return (self.category, self.name)


@dataclass(frozen=True, slots=True)
class Trace:
    device: list[Span]
    operators: list[Span]
    gloo: list[Span]


def nanoseconds(raw: msgspec.Raw) -> int:
    return int(Decimal(bytes(raw).decode()) * 1000)


@functools.cache
def read(file: str) -> Trace:
    data = gzip.decompress((TRACES_FOLDER / file).read_bytes())
    events = msgspec.json.decode(data, type=RawFile).trace_events
    trace = Trace([], [], [])
    has_device = any(event.ph == "X" and event.cat in DEVICE_CATEGORIES for event in events)
    for event in events:
        if event.ph != "X" or event.name is None or event.cat is None:
            continue
        if event.cat in DEVICE_CATEGORIES:
            into = trace.device
        elif event.cat in OPERATOR_CATEGORIES:
            into = trace.operators
        elif event.cat == "user_annotation" and event.name.startswith("gloo:"):
            into = trace.gloo
        else:
            continue
        # The times of operators matter only where operators are the device events.
        timed = into is trace.device or not has_device
        start_ns = nanoseconds(event.ts) if timed else 0
        end_ns = start_ns + nanoseconds(event.dur) if timed else 0
        thread = (str(event.pid), str(event.tid))
        into.append(Span(event.cat, event.name, thread, start_ns, end_ns))
    return trace


def union_ns(spans: Iterable[Span]) -> int:
    total_ns = 0
    reached_ns: int | None = None
    for start_ns, end_ns in sorted((span.start_ns, span.end_ns) for span in spans):
        if reached_ns is None or start_ns > reached_ns:
            total_ns += end_ns - start_ns
            reached_ns = end_ns
        elif end_ns > reached_ns:
            total_ns += end_ns - reached_ns
            reached_ns = end_ns
    return total_ns


def leaf_and_self_ns(spans: Sequence[Span]) -> tuple[Counter[Named], Counter[Named]]:
    """Time by name: of spans with none nested in them on their thread, and self time of all."""
    threads: defaultdict[tuple[str, str], list[Span]] = defaultdict(list)
    for span in spans:
        threads[span.thread].append(span)
    leaf_ns: Counter[Named] = Counter()
    self_ns: Counter[Named] = Counter()
    for thread in threads.values():
        open_spans: list[list[Any]] = []  # the span and the time of what is nested in it

        def close(entry: list[Any]) -> None:
            span, nested_ns = entry
            duration_ns = span.end_ns - span.start_ns
            self_ns[span.named] += max(duration_ns - (nested_ns or 0), 0)
            if nested_ns is None:
                leaf_ns[span.named] += duration_ns

        for span in sorted(thread, key=lambda span: (span.start_ns, -span.end_ns)):
            while open_spans and open_spans[-1][0].end_ns <= span.start_ns:
                close(open_spans.pop())
            if open_spans:
                around = open_spans[-1]
                inside_ns = min(span.end_ns, around[0].end_ns) - span.start_ns
                around[1] = (around[1] or 0) + inside_ns
            open_spans.append([span, None])
        while open_spans:
            close(open_spans.pop())
    return leaf_ns, self_ns


def is_work(name: str) -> bool:
    """Whether an op of a CPU is work: autograd's nodes and Python's ranges around ops are not."""
    return "::" in name and not name.startswith(("autograd::", "torch::autograd::"))


def unclassified_pct(time_ns: Counter[Named], found: dict[Named, str]) -> float:
    total_ns = sum(time_ns.values())
    other_ns = sum(duration for named, duration in time_ns.items() if found[named] == "other")
    return 100 * other_ns / total_ns if total_ns else 0.0


@pytest.mark.skipif(not TRACE_FILES, reason=NO_TRACES)
def test_examples_occur_in_the_traces_they_name() -> None:
    for rule in rules():
        if "trace" not in rule:
            continue
        trace = read(rule["trace"])
        events = trace.device if rule["applies_to"] == "device" else trace.operators + trace.gloo
        found = [span for span in events if span.name == rule["example"]]
        assert found, rule
        if "category" in rule:
            assert any(re.search(rule["category"], span.category) for span in found), rule


@on_every_trace
def test_kinds_give_the_exact_unions(file: str) -> None:
    expected = json.loads((TRACES_FOLDER / "expected.json").read_text(encoding="utf-8"))
    if file not in expected:
        pytest.skip("expected.json has no figures for this trace")
    timeline_ns = expected[file]["timeline_ns"]
    trace = read(file)
    assert len(trace.device) == expected[file]["device_events"]
    if timeline_ns is None:
        return
    found = classes("device", (span.named for span in trace.device))
    by_kind: defaultdict[str, list[Span]] = defaultdict(list)
    for span in trace.device:
        by_kind[document()["kinds"][found[span.named]]].append(span)
    unions_ns = {kind: union_ns(by_kind[kind]) for kind in ("compute", "comm", "memcpy")}
    assert unions_ns == {kind: timeline_ns[kind] for kind in unions_ns}


@on_every_trace
def test_little_is_left_unclassified(file: str) -> None:
    trace = read(file)
    if trace.device:
        time_ns: Counter[Named] = Counter()
        for span in trace.device:
            time_ns[span.named] += span.end_ns - span.start_ns
        found = classes("device", time_ns)
        assert unclassified_pct(time_ns, found) <= MOST_UNCLASSIFIED_PCT
        return
    operators = [span for span in trace.operators if is_work(span.name)]
    found = classes("cpu", (span.named for span in operators))
    for time_ns in leaf_and_self_ns(operators):
        assert unclassified_pct(time_ns, found) <= MOST_UNCLASSIFIED_PCT


@pytest.mark.skipif(not TRACE_FILES, reason=NO_TRACES)
def test_communication_of_the_cpu_is_communication() -> None:
    collectives: set[Named] = set()
    for file in TRACE_FILES:
        trace = read(file)
        collectives |= {span.named for span in trace.operators if span.name.startswith("c10d::")}
        collectives |= {span.named for span in trace.gloo}
    found = classes("cpu", collectives)
    assert {document()["kinds"][class_name] for class_name in found.values()} == {"comm"}
    assert found[("user_annotation", "gloo:all_reduce")] == "comm_allreduce"
    assert found[("user_annotation", "gloo:all_gather")] == "comm_allgather"
