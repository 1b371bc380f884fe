#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns what bench/gpu/topology measured into a machine of the cost model (spec/hardware/NAME.json).

hardware.py MEASURED.json BASE.json: the base's numbers, replaced by measured ones where there are any, to
standard output. Peaks (fp32_tflops, tensor_tflops, memory_gbps, link_gbps) stay; efficiencies are measured
rate over peak.
"""
import json
import sys


def convert(measured, base):
    out = dict(base)

    def put(key, value, least=0.0, most=1e6):
        if value is not None:
            out[key] = float("%.3g" % min(max(value, least), most))

    def at(key, ctas):
        return dict((int(k), v) for k, v in measured.get(key, [])).get(ctas)

    def ratio(a, b):
        return a / b if a is not None and b else None

    for key in ("sms",):
        if key in measured:
            out[key] = int(measured[key])
    if measured.get("gpus", 1) > 1:
        out["ranks"] = int(measured["gpus"])
    put("library_efficiency", ratio(measured.get("gemm_tflops_bf16"), base["tensor_tflops"]), 1e-3, 1)
    put("plain_efficiency", ratio(measured.get("plain_gemm_tflops_fp32"), base["fp32_tflops"]), 1e-3, 1)
    put("memory_efficiency", ratio(measured.get("hbm_gbps"), base["memory_gbps"]), 1e-3, 1)
    stores = [v for _, v in measured.get("link_gbps_by_ctas", [])]
    best = max(stores + [x for x in [measured.get("link_gbps_copy_engine")] if x], default=None)
    put("link_efficiency", ratio(best, base["link_gbps"]), 1e-3, 1)
    put("sm_link_gbps", at("link_gbps_by_ctas", 1), 1e-2)
    put("pull_efficiency", ratio(at("link_gbps_load_by_ctas", 1), at("link_gbps_by_ctas", 1)), 1e-3, 1)
    put("link_latency_us", measured.get("signal_us"))
    put("flag_us", measured.get("signal_us"))
    put("barrier_us", measured.get("barrier_us"))
    put("world_barrier_us", measured.get("barrier_us"))
    put("launch_us", measured.get("launch_us"))
    if "launch_and_event_us" in measured and "launch_us" in measured:
        put("event_us", measured["launch_and_event_us"] - measured["launch_us"])
    put("host_collective_us", measured.get("nccl_small_allreduce_us"))
    put("host_p2p_us", measured.get("nccl_small_p2p_us"))
    slow = at("gemm_slowdown_by_ctas", 16)
    put("overlap_slowdown", None if slow is None else slow - 1, 0, 10)
    out["summary"] = base["summary"].split("; measured")[0] + "; measured"
    return out


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1]) as f:
        measured = json.load(f)
    with open(sys.argv[2]) as f:
        base = json.load(f)
    print(json.dumps(convert(measured, base), indent=2))


if __name__ == "__main__":
    main()
