"""Cases of quantised programs: each operator of quantized_decomposed and torchao on values between two steps, where rounding,
the reciprocal of the scale and the types that meet decide; and small models that torchao quantised. generate_cases.py lists
them among the others."""
import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers quantized_decomposed)

INT8, UINT8, INT16 = torch.int8, torch.uint8, torch.int16
F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16


def halves(*sizes, scale=0.1, dtype=F32):
    """Multiples of half a step, moved up and down by a rounding error: what falls on one side or the other."""
    count = torch.Size(sizes).numel()
    steps = torch.arange(count, dtype=F32) - count // 2
    values = steps * (scale / 2)
    values = values * (1 + torch.randint(-1, 2, (count,)) * 2.0**-23)
    return values[torch.randperm(count)].view(sizes).to(dtype)


def quantised_mlp(inputs=16, hidden=24):
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 8)).eval()


def add_cases(case, Case, of):
    q = torch.ops.quantized_decomposed

    @case
    def quantised_per_tensor():
        def forward(self, x, narrow, scale, wide_scale, zero, low, high):
            a = q.quantize_per_tensor(x, 0.1, 3, -128, 127, INT8)
            b = q.quantize_per_tensor(narrow, 0.1, 128, 0, 255, UINT8)
            c = q.quantize_per_tensor.tensor(x, scale, zero, -128, 127, INT8)
            d = q.quantize_per_tensor.tensor(narrow, wide_scale, zero, -32768, 32767, INT16)
            e = q.quantize_per_tensor.tensor2(x, wide_scale, zero, low, high, INT8)
            f = q.quantize_per_tensor(x, 0.1, 0, -448, 448, torch.float8_e4m3fn)
            return (a, b, c, d, e, f, q.dequantize_per_tensor(a, 0.1, 3, -128, 127, INT8),
                    q.dequantize_per_tensor(b, 0.1, 128, 0, 255, UINT8, out_dtype=BF16),
                    q.dequantize_per_tensor.tensor(c, scale, zero, -128, 127, INT8),
                    q.dequantize_per_tensor.tensor(d, wide_scale, zero, -32768, 32767, INT16, out_dtype=BF16),
                    q.dequantize_per_tensor.tensor2(e, wide_scale, zero, low, high, INT8),
                    q.dequantize_per_tensor(f, 0.1, 0, -448, 448, torch.float8_e4m3fn))

        def inputs(scale):
            return (halves(8, 40, scale=scale), halves(8, 5, scale=scale, dtype=BF16), torch.tensor(scale),
                    torch.tensor([scale], dtype=torch.float64), torch.tensor([5]), torch.tensor(-100), torch.tensor(90))

        bad = (*inputs(0.1)[:5], torch.tensor(-129), torch.tensor(90))
        return of(forward, [inputs(0.1), inputs(0.3)], "quantize and dequantize per tensor, at half steps; a range that does "
                  "not fit the type is refused", bad=[bad])

    @case
    def quantised_per_channel():
        def forward(self, x, narrow, scales, wide, zeros, small_zeros):
            a = q.quantize_per_channel(x, scales, zeros, 1, -128, 127, INT8)
            b = q.quantize_per_channel(narrow, wide, zeros, -1, 0, 255, UINT8)
            return (a, b, q.dequantize_per_channel(a, scales, zeros, 1, -128, 127, INT8),
                    q.dequantize_per_channel(a, scales, small_zeros, 1, -128, 127, INT8),
                    q.dequantize_per_channel(b, wide, None, -1, 0, 255, UINT8, out_dtype=BF16),
                    q.fake_quant_per_channel(x, scales, zeros, 1, -8, 7))

        scales = torch.tensor([0.1, 0.3, 0.07, 0.25])
        zeros = torch.tensor([0, 3, -7, 100])
        return of(forward, [(halves(6, 4, 8), halves(9, 4, dtype=F16), scales, scales.double(), zeros, zeros.to(INT8))],
                  "quantize and dequantize per channel, with scales of two types and zero points that wrap around in int8")

    @case
    def quantised_rows():
        def forward(self, x, rows, scales, group_scales, group_zeros):
            scale, zero = q.choose_qparams_per_token_asymmetric(x, INT8)
            a = q.quantize_per_token(x, scale, zero, -128, 127, INT8)
            b = q.quantize_per_channel_group(rows, group_scales, group_zeros, -8, 7, INT8, 8)
            return (scale, zero, a, b, q.quantize_per_token(x, scales, torch.zeros_like(scales), -128, 127, INT8),
                    q.dequantize_per_token(a, scale, zero, -128, 127, INT8, F32),
                    q.dequantize_per_channel_group(b, group_scales, group_zeros, -8, 7, INT8, 8, F32),
                    q.dequantize_per_channel_group(b, group_scales, None, -8, 7, INT8, 8, BF16))

        def inputs():
            return (halves(2, 5, 16), halves(6, 16), torch.rand(2, 5, 1) + 0.05, torch.rand(6, 2) + 0.05,
                    torch.randint(-3, 4, (6, 2), dtype=torch.int32))

        nan = inputs()
        nan[1][2, 3] = float("nan")
        return of(forward, [inputs(), inputs()], "quantize per token and per group of columns; NaN in a group is refused",
                  bad=[nan])

    @case
    def quantised_choices():
        def forward(self, x, narrow, half, flat):
            return (*q.choose_qparams.tensor(x, -128, 127, 1e-6, INT8), *q.choose_qparams.tensor(narrow, 0, 255, 1e-6, UINT8),
                    *q.choose_qparams.tensor(half, -128, 127, 1e-6, INT8), *q.choose_qparams.tensor(flat, 0, 255, 1e-4, UINT8),
                    *q.choose_qparams_symmetric.tensor(x, -127, 127, 1e-6, INT8),
                    *q.choose_qparams_symmetric.tensor(narrow, 0, 255, 1e-6, UINT8),
                    *q.choose_qparams_per_token_asymmetric(narrow, INT8), q.convert_element_type.no_fuse(x, BF16))

        def inputs(shift):
            return (torch.randn(7, 9) + shift, (torch.randn(7, 9) * 3 + shift).to(BF16),
                    (torch.randn(11) + shift).to(F16), torch.zeros(4))

        return of(forward, [inputs(0), inputs(5), inputs(-5)], "scales and zero points found in the data, per tensor and token")

    @case
    def quantised_blocks():
        import torchao.quantization.quant_primitives  # noqa: F401  (registers the operators)
        ao = torch.ops.torchao

        def forward(self, x, narrow):
            outs = []
            for mapping in ("SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC"):
                for block in ([1, 16], [1, 8], [6, 16]):
                    scale, zero = ao.choose_qparams_affine(x, mapping, block, INT8, -8, 7, 1e-6, F32, torch.int32)
                    steps = ao.quantize_affine(x, block, scale, zero, INT8, -8, 7)
                    outs += [scale, zero, steps, ao.dequantize_affine(steps, block, scale, zero, INT8, -8, 7, output_dtype=BF16)]
            scale, zero = ao.choose_qparams_affine(narrow, "ASYMMETRIC", [1, 8], UINT8, keepdim=True)
            steps = ao.quantize_affine(narrow, [1, 8], scale, zero, UINT8)
            outs += [scale, zero, steps, ao.dequantize_affine(steps, [1, 8], scale, zero, UINT8, output_dtype=BF16)]
            scale, zero = ao.choose_qparams_affine(narrow, "SYMMETRIC", [1, 16], INT8, -127, 127)
            return (*outs, scale, zero, ao.dequantize_affine(steps, [1, 8], outs[-4].float(), None, UINT8))

        return of(forward, [(halves(6, 16), halves(6, 16, dtype=BF16)), (torch.randn(6, 16), torch.randn(6, 16).to(BF16))],
                  "torchao's quantize_affine, dequantize_affine and choose_qparams_affine by rows, groups and as a whole")

    @case
    def quantised_float8():
        import torchao.quantization.quant_primitives  # noqa: F401
        ao = torch.ops.torchao

        def forward(self, x, narrow):
            by_row = ao.choose_scale_float8(x, [1, 16])
            by_block = ao.choose_scale_float8(narrow, [2, 8], torch.float8_e5m2, F32, 0.5, 1.5)
            a = ao.quantize_affine_float8_non_decomposed(x, by_row)
            b = ao.quantize_affine_float8_non_decomposed(narrow, by_block, torch.float8_e5m2)
            return (by_row, by_block, a.float(), b.float(), ao.dequantize_affine_float8_non_decomposed(a, by_row),
                    ao.dequantize_affine_float8_non_decomposed(b, by_block, BF16))

        return of(forward, [(torch.randn(6, 16) * 9, torch.randn(6, 16).to(BF16))],
                  "torchao's float8 operators, scales by rows and by blocks")

    @case
    def fake_quantised():
        def forward(self, x, narrow, scale, zero, scales, zeros):
            return (torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7),
                    torch.fake_quantize_per_tensor_affine(narrow, scale, zero, -8, 7),
                    torch.fake_quantize_per_tensor_affine(x.double(), 0.1, 3, -128, 127),
                    torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, -8, 7),
                    torch.fake_quantize_per_channel_affine(narrow, scales, zeros.float() + 0.25, 1, -8, 7),
                    *torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 3, -8, 7),
                    *torch.ops.aten.fake_quantize_per_channel_affine_cachemask(x, scales, zeros, 1, -8, 7))

        values = halves(12, 4)
        values[0] = torch.tensor([float("nan"), float("inf"), float("-inf"), 1e30])
        values[1] = torch.tensor([1e9, -1e9, 1e17, -1e30])
        return of(forward, [(values, halves(12, 4, dtype=BF16), torch.tensor(0.1), torch.tensor(3, dtype=torch.int32),
                             torch.tensor([0.1, 0.3, 0.07, 0.25]), torch.tensor([0, 3, -7, 5], dtype=torch.int32))],
                  "fake_quantize per tensor and per channel, at half steps, NaN, infinities and beyond 64-bit integers")

    @case
    def quantised_static_mlp():
        from torchao.quantization.pt2e import allow_exported_model_train_eval
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86
        calls = [(torch.randn(3, 16),), (torch.randn(3, 16),)]
        quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
        prepared = prepare_pt2e(torch.export.export(quantised_mlp(), calls[0], strict=True).module(), quantizer)
        for call in calls:
            prepared(*call)
        return Case(allow_exported_model_train_eval(convert_pt2e(prepared)), calls, "an MLP quantised by torchao's pt2e for x86")

    class Quantised(nn.Module):
        """A convolution of bytes: what it reads is quantised to this type, its weights are int8 with a scale for each channel."""

        def __init__(self, inputs, outputs, window, zero, dtype, **options):
            super().__init__()
            weight = torch.randint(-127, 128, (outputs, inputs // options.get("groups", 1), window, window), dtype=INT8)
            self.weight, self.options, self.zero, self.dtype = nn.Buffer(weight), options, zero, dtype
            self.scales = nn.Buffer(torch.rand(outputs) * 0.01 + 0.001)
            self.zeros = nn.Buffer(torch.zeros(outputs, dtype=torch.int64))
            self.bias = nn.Parameter(torch.randn(outputs))
            self.range = (0, 255) if dtype == UINT8 else (-128, 127)

        def forward(self, x):
            x = q.quantize_per_tensor(x, 0.05, self.zero, *self.range, self.dtype)
            x = q.dequantize_per_tensor(x, 0.05, self.zero, *self.range, self.dtype)
            weight = q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, INT8)
            return nn.functional.conv2d(x, weight, self.bias, **self.options)

    @case
    def quantised_convolutions():
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.one = Quantised(12, 24, 3, 131, UINT8, padding=1)
                self.two = Quantised(24, 40, 3, -9, INT8, padding=2, stride=2, dilation=2)
                self.three = Quantised(40, 17, 1, 0, UINT8)
                self.four = Quantised(40, 32, 3, 20, UINT8, padding=1, groups=2)
                self.five = Quantised(40, 40, 3, 128, UINT8, padding=1, groups=40)

            def forward(self, x):
                y = torch.relu(self.one(x))
                z = self.two(y)
                return y / 64, z / 64, self.three(torch.relu(z)) / 64, (self.four(z) + z[:, :32]) / 64, self.five(z) / 64, z.mean((2, 3))

        return Case(Net().eval(), [(torch.randn(2, 12, 9, 7) * 3,), (torch.randn(2, 12, 9, 7),)],
                    "convolutions of bytes: zero points beyond the border, strides, dilation, groups; others read what they read")

    @case
    def quantised_products():
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Buffer(torch.randint(-128, 128, (48, 40), dtype=INT8))
                self.wide = nn.Buffer(torch.randint(-128, 128, (24, 40), dtype=INT8))
                self.scales = nn.Buffer(torch.rand(24) * 0.01)

            def forward(self, x, bytes, y):
                scale, zero = q.choose_qparams.tensor(y, 0, 255, 1e-6, UINT8)
                steps = q.quantize_per_tensor.tensor(y, scale, zero, 0, 255, UINT8)
                y = q.dequantize_per_tensor.tensor(steps, scale, zero, 0, 255, UINT8)
                weight = q.dequantize_per_channel(self.wide, self.scales, None, 0, -128, 127, INT8)
                by_row, _ = q.choose_qparams_per_token_asymmetric(y, INT8)
                return (torch._int_mm(x, self.weight), torch._int_mm(bytes, self.weight), nn.functional.linear(y, weight),
                        torch._int_mm(x - 3, self.weight) * by_row[:20].float())

        def inputs():
            return (torch.randint(-128, 128, (20, 48), dtype=INT8), torch.randint(0, 256, (20, 48), dtype=UINT8),
                    torch.randn(33, 40))

        return Case(Net().eval(), [inputs(), inputs()],
                    "_int_mm of int8 and of uint8, a linear layer whose scale and zero point are found in the data")

    def subclass(config, about, inputs=16, hidden=24, rows=3):
        from torchao.quantization import quantize_
        model = quantised_mlp(inputs, hidden)
        quantize_(model, config)
        return Case(model, [(torch.randn(rows, inputs),), (torch.randn(rows, inputs),)], about)

    @case
    def quantised_int8_weights():
        from torchao.quantization import Int8WeightOnlyConfig
        return subclass(Int8WeightOnlyConfig(), "weights that are tensor subclasses, in the file as they are")

    @case
    def quantised_int8_activations_int4_weights():
        from torchao.quantization import Int8DynamicActivationIntxWeightConfig
        from torchao.quantization.granularity import PerGroup
        return subclass(Int8DynamicActivationIntxWeightConfig(torch.int4, PerGroup(8)),
                        "int4 weights in groups, activations quantised as they come")

    @case
    def quantised_int4_groups_of_32():
        from torchao.quantization import IntxWeightOnlyConfig
        from torchao.quantization.granularity import PerGroup
        return subclass(IntxWeightOnlyConfig(torch.int4, PerGroup(32)), "groups as long as vectors, one row: a scale is one load",
                        inputs=96, hidden=64, rows=1)
