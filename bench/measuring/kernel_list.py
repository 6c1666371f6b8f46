"""The single operators that bench/kernels.py measures, in the shapes that the models of model_list.py have."""
from model_list import Entry

KERNELS: dict[str, Entry] = {}


def kernel(name, about, make):
    KERNELS[name] = Entry(about, make)


# ---- Products: rows × inner × columns ----

def product(rows, inner, columns, about):
    def make(batch):
        import torch
        return torch.nn.Linear(inner, columns), (torch.randn(batch * rows, inner),)
    kernel(f"linear_{rows}x{inner}x{columns}", about, make)


product(128, 384, 384, "MiniLM: query, key, value, output")
product(128, 384, 1536, "MiniLM: up")
product(128, 1536, 384, "MiniLM: down")
product(128, 768, 768, "BERT-base: query, key, value, output")
product(128, 768, 3072, "BERT-base, GPT-2: up")
product(128, 3072, 768, "BERT-base, GPT-2: down")
product(128, 768, 2304, "GPT-2: query, key and value at once")
product(128, 1024, 2816, "Llama: gate, up")
product(197, 768, 3072, "ViT-B/16: up")
product(1500, 512, 2048, "Whisper base: up")
product(1024, 1024, 1024, "a large square")
product(1, 768, 2304, "GPT-2 decode: query, key and value")
product(1, 768, 3072, "GPT-2 decode: up")
product(1, 3072, 768, "GPT-2 decode: down")
product(1, 768, 50257, "GPT-2 decode: logits")
product(1, 1024, 2816, "Llama decode: gate, up")
product(1, 1024, 32000, "Llama decode: logits")
product(1, 512, 1000, "ResNet-18: classes")


# ---- Convolutions ----

def convolution(inputs, outputs, size, window, stride, about, groups=1):
    def make(batch):
        import torch
        net = torch.nn.Conv2d(inputs, outputs, window, stride, window // 2, groups=groups)
        return net, (torch.randn(batch, inputs, size, size),)
    kind = "depthwise" if groups > 1 else "conv"
    shape = f"{inputs}" if groups > 1 else f"{inputs}to{outputs}"
    kernel(f"{kind}{window}x{window}_{shape}_{size}" + (f"_stride{stride}" if stride > 1 else ""), about, make)


convolution(3, 64, 224, 7, 2, "ResNet: the first")
convolution(64, 64, 56, 3, 1, "ResNet-18, stage 1")
convolution(128, 128, 28, 3, 1, "ResNet-18, stage 2")
convolution(256, 256, 14, 3, 1, "ResNet-18, stage 3")
convolution(512, 512, 7, 3, 1, "ResNet-18, stage 4")
convolution(64, 256, 56, 1, 1, "ResNet-50, stage 1: widening")
convolution(1024, 256, 14, 1, 1, "ResNet-50, stage 3: narrowing")
convolution(512, 2048, 7, 1, 1, "ResNet-50, stage 4: widening")
convolution(256, 512, 56, 1, 2, "ResNet-50: beside the strided block")
convolution(32, 32, 256, 3, 1, "U-Net: the largest image")
convolution(96, 24, 28, 1, 1, "MobileNetV3: narrowing")
convolution(16, 16, 112, 3, 1, "MobileNetV3-large", groups=16)
convolution(120, 120, 28, 5, 1, "MobileNetV3-large", groups=120)
convolution(960, 960, 7, 5, 1, "MobileNetV3-large", groups=960)
convolution(96, 96, 112, 3, 2, "EfficientNet-B0", groups=96)
convolution(96, 96, 56, 7, 1, "ConvNeXt-T, stage 1", groups=96)
convolution(384, 384, 14, 7, 1, "ConvNeXt-T, stage 3", groups=384)


def patches(batch):
    import torch
    return torch.nn.Conv2d(3, 768, 16, 16), (torch.randn(batch, 3, 224, 224),)


def sound(batch):
    import torch
    return torch.nn.Conv1d(384, 384, 3, 2, 1), (torch.randn(batch, 384, 3000),)


def transposed(batch):
    import torch
    return torch.nn.ConvTranspose2d(64, 32, 2, 2), (torch.randn(batch, 64, 128, 128),)


kernel("conv16x16_3to768_224_stride16", "ViT-B/16: patches", patches)
kernel("conv1d_3_384to384_3000_stride2", "Whisper tiny: the second", sound)
kernel("transposed2x2_64to32_128_stride2", "U-Net: up", transposed)


# ---- Attention: heads × queries × keys × width ----

def attention(heads, queries, keys, about, width=64, causal=False):
    def make(batch):
        import torch

        class Attention(torch.nn.Module):
            def forward(self, q, k, v):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        q, k, v = (torch.randn(batch, heads, n, width) for n in (queries, keys, keys))
        return Attention(), (q, k, v)
    kernel(f"attention_{heads}x{queries}x{keys}x{width}" + ("_causal" if causal else ""), about, make)


attention(12, 128, 128, "MiniLM", width=32)
attention(12, 128, 128, "BERT-base")
attention(12, 128, 128, "GPT-2, a prompt", causal=True)
attention(12, 197, 197, "ViT-B/16")
attention(6, 1500, 1500, "Whisper tiny")
attention(12, 1, 129, "GPT-2 decode")


# ---- What memory limits ----

def simple(name, about, shape, make_module):
    def make(batch):
        import torch
        return make_module(torch), (torch.randn(batch * shape[0], *shape[1:]),)
    kernel(name, about, make)


simple("layer_norm_128x768", "BERT-base", (128, 768), lambda torch: torch.nn.LayerNorm(768))
simple("gelu_128x3072", "BERT-base", (128, 3072), lambda torch: torch.nn.GELU())
simple("softmax_1536x128", "BERT-base", (1536, 128), lambda torch: torch.nn.Softmax(-1))
simple("max_pool3x3_64_112", "ResNet", (1, 64, 112, 112), lambda torch: torch.nn.MaxPool2d(3, 2, 1))
simple("mean_pool_2048_7", "ResNet-50", (1, 2048, 7, 7), lambda torch: torch.nn.AdaptiveAvgPool2d(1))
