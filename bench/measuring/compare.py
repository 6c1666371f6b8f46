"""Whether a system's results are right: against eager, and against float64 beside eager's own error."""
import numpy

import raw_tensors

ROUNDING = {"float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10, "float64": 2.0**-52}


def largest(array):
    return float(numpy.max(numpy.abs(array))) if array.size else 0.0


def compare(outputs, exported):
    """difference: the largest to eager. error, eager_error: the largest to float64 of both. ratio: the worst of an error to
    what is allowed, 4 times eager's own and a floor of 16 roundings of the largest value; above 1 is more than rounding."""
    got, eager = raw_tensors.read_numpy(outputs), raw_tensors.read_numpy(exported / "expected")
    known = (exported / "exact" / "index.json").exists()
    exact = raw_tensors.read_numpy(exported / "exact") if known else eager
    kinds = [spec["dtype"] for spec in raw_tensors.specs(exported / "expected")]
    if len(got) != len(eager):
        return {"verdict": f"WRONG: {len(got)} outputs, eager has {len(eager)}", "right": False}
    facts = {"difference": 0.0, "error": 0.0, "eager_error": 0.0, "ratio": 0.0, "right": True}
    for i, (mine, theirs, truth, kind) in enumerate(zip(got, eager, exact, kinds)):
        if mine.shape != theirs.shape:
            return {"verdict": f"WRONG: output {i} has sizes {list(mine.shape)}, eager's {list(theirs.shape)}", "right": False}
        if kind not in ROUNDING:
            if not numpy.array_equal(mine, theirs):
                return {"verdict": f"WRONG: output {i} ({kind}) differs from eager's", "right": False}
            continue
        if not numpy.array_equal(numpy.isfinite(mine), numpy.isfinite(theirs)):
            return {"verdict": f"WRONG: output {i} is not finite where eager's is, or the other way round", "right": False}
        finite = numpy.isfinite(theirs)
        mine, theirs, truth = mine[finite], theirs[finite], truth[finite]
        error, own = largest(mine - truth), largest(theirs - truth)
        allowed = 4 * own + 16 * ROUNDING[kind] * largest(theirs) * (1 if known else 64)
        facts["difference"] = max(facts["difference"], largest(mine - theirs))
        facts["error"], facts["eager_error"] = max(facts["error"], error), max(facts["eager_error"], own)
        facts["ratio"] = max(facts["ratio"], error / allowed if allowed else float(error > 0) * 1e9)
    facts["right"] = facts["ratio"] <= 1
    facts["verdict"] = ("equal within rounding" if facts["right"] else
                        f"NOT equal within rounding: off by {facts['difference']:.2g}, {facts['ratio']:.1f} times what is allowed")
    return facts
