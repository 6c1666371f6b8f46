"""Makes docs/gpu-benchmarks.md and its plots of what run.py and kernels.py measured.

    python bench/gpu/report.py --models result.json --kernels kernels.json --when "16 November 2026" [--docs docs]
"""
import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "measuring"))
from plots import bar_chart  # noqa: E402

LABELS = {"kiln": "Kiln", "kiln_bound": "Kiln, bound", "compile_graph": "Inductor, graph", "autotune_graph": "Inductor max-autotune, graph",
          "eager_graph": "eager, graph", "compile": "Inductor", "eager": "eager"}
HOW = """# Benchmarks on a GPU

`bench/gpu` makes this page ([gpu.md](gpu.md#benchmarks)): Kiln beside PyTorch in bf16, in one run on {gpu} (torch {torch}), {when}. Systems take turns.
<!-- docs-test: skip needs a GPU -->
```
$ python bench/gpu/compile.py --kiln build/release/bin/kiln --out packages --kernels      # here
$ python bench/gpu/run.py --packages packages --json models.json                          # there, and what follows
$ python bench/gpu/kernels.py --packages packages --json kernels.json
$ python bench/gpu/report.py --models models.json --kernels kernels.json --when "{when}" --docs docs
```
"""
MODELS = """
## Models
Microseconds from the beginning of a call to the end of its last kernel, medians of CUDA events; *graph*: the system's call recorded as a CUDA graph
and replayed, which Kiln does by itself; *bound*: Kiln's call made ready for tensors that stay where they are (`model.bind`), as
those of a recorded graph do. *limit*: what the GPU needs for the products at 790 TFLOP/s or for reading the weights at 4.65 TB/s,
both measured there. A result is compared with eager's before it counts.

"""
KERNELS = """
## Single operators
Microseconds of the GPU's own for the kernels of a call, as CUPTI has them, with weights that come from memory; PyTorch calls cuBLASLt for the
products, cuDNN for the convolutions and flash attention. The convolutions' pictures and weights are channels-last on both sides.

"""


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "| --- |" + " ---: |" * (len(columns) - 1)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def rounded(us):
    return "–" if us is None else f"{us:.3g}" if us < 1000 else f"{us:,.0f}"


def section(found, title, name, images):
    systems = [s for s in LABELS if any(s in row["us"] for row in found["models"].values())]
    rows = [[model, *(rounded(row["us"].get(s)) for s in systems), rounded(row["limit_us"]),
             f"{100 * row['limit_us'] / row['us']['kiln']:.0f} %"] for model, row in found["models"].items() if "kiln" in row["us"]]
    groups = [(model, {s: us / row["us"]["kiln"] for s, us in row["us"].items() if s in LABELS})
              for model, row in found["models"].items() if "kiln" in row["us"]]
    chart = bar_chart(title, groups, {s: LABELS[s] for s in systems}, "×", True, 1.0)
    (images / name).write_text(chart)
    return f"![{title}](images/{name})\n\n" + table(["", *(LABELS[s] for s in systems), "limit", "of the limit"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--kernels", type=pathlib.Path, required=True)
    parser.add_argument("--when", required=True)
    parser.add_argument("--docs", type=pathlib.Path, default=pathlib.Path("docs"))
    options = parser.parse_args()
    images = options.docs / "images"
    images.mkdir(parents=True, exist_ok=True)
    models, kernels = (json.loads(path.read_text()) for path in (options.models, options.kernels))
    text = HOW.format(gpu=models["gpu"], torch=models["torch"], when=options.when)
    title = "Time over Kiln's: right of the line Kiln is quicker"
    text += MODELS + section(models, f"{title} (a call)", "gpu-models.svg", images)
    text += KERNELS + section(kernels, f"{title} (kernels of one operator)", "gpu-kernels.svg", images)
    (options.docs / "gpu-benchmarks.md").write_text(text)


if __name__ == "__main__":
    main()
