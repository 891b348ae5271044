"""Nine models on which private steps are measured: plain modules of torch, the same for every library.

This file is sent as it is to the environment of another library, so it imports nothing but torch.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASSES, WORDS, TOKENS, WIDTH = 10, 1000, 128, 256


class Block(nn.Module):
    """A layer of a transformer, before which its input is normalised; `rank` adds trained adapters (LoRA)."""

    def __init__(self, width: int, heads: int, rank: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = adapted(width, 3 * width, rank), nn.Linear(width, width)
        self.wide, self.narrow = adapted(width, 4 * width, rank), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.second(x))))


class Adapted(nn.Module):
    """A linear layer beside the product of two thin ones."""

    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.down, self.up = nn.Linear(inputs, rank, bias=False), nn.Linear(rank, outputs, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.up(self.down(x))


def adapted(inputs: int, outputs: int, rank: int) -> nn.Module:
    return Adapted(inputs, outputs, rank) if rank else nn.Linear(inputs, outputs)


def places(tokens: int, width: int) -> torch.Tensor:
    """Fixed positions, so that no parameter stands outside of a layer (other libraries need that)."""
    angle = torch.arange(tokens)[:, None] / 10000.0 ** (torch.arange(width // 2) / (width // 2))
    return torch.cat([angle.sin(), angle.cos()], 1)


class Transformer(nn.Module):
    """Words to a class; with a rank, all but the adapters and the last layer is frozen."""

    def __init__(self, rank: int = 0) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.Sequential(*(Block(WIDTH, 4, rank) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
        self.register_buffer("places", places(TOKENS, WIDTH))
        if rank:
            for name, each in self.named_parameters():
                each.requires_grad_("down" in name or "up" in name or "head" in name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.table(x) + self.places)).mean(1))


class VisionTransformer(nn.Module):
    """Patches of 4 by 4 pixels to a class."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 192, 4, stride=4)
        self.blocks = nn.Sequential(*(Block(192, 3) for _ in range(6)))
        self.norm, self.head = nn.LayerNorm(192), nn.Linear(192, CLASSES)
        self.register_buffer("places", places(64, 192))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patch(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.blocks(tokens)).mean(1))


class Branch(nn.Module):
    """A block of a ResNet with GroupNorm."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.first, self.second = nn.GroupNorm(16, outputs), nn.GroupNorm(16, outputs)
        same = stride == 1 and inputs == outputs
        self.short = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.relu(self.first(self.one(x)))
        return F.relu(self.second(self.two(inner)) + self.short(x))


class Lstm(nn.Module):
    """Words to a class by an LSTM; the kind is that of the library, where torch's own is not supported."""

    def __init__(self, kind: type[nn.Module] = nn.LSTM) -> None:
        super().__init__()
        self.table, self.inner = nn.Embedding(WORDS, 64), kind(64, 128, batch_first=True)
        self.head = nn.Linear(128, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(self.table(x))[0][:, -1])


def resnet() -> nn.Module:
    sizes = [
        (64, 64, 1),
        (64, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
        (128, 256, 2),
        (256, 256, 1),
        (256, 512, 2),
        (512, 512, 1),
    ]
    start = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.GroupNorm(16, 64), nn.ReLU()]
    return nn.Sequential(
        *start, *(Branch(*each) for each in sizes), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES)
    )


def convolutions() -> nn.Module:
    parts: list[nn.Module] = []
    for inputs, outputs, stride in ((3, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2)):
        parts += [nn.Conv2d(inputs, outputs, 3, stride, 1), nn.GroupNorm(8, outputs), nn.ReLU()]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, CLASSES))


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, CLASSES),
    )  # fmt: skip


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, CLASSES))


MODELS = {  # what makes it, the shape of an example, the batch on a GPU and on the CPU
    "linear 1024 to 10": (lambda: nn.Linear(1024, CLASSES), (1024,), 4096, 4096),
    "MLP 784-1024-1024-10": (perceptron, (784,), 4096, 1024),
    "CNN on 28x28": (small_cnn, (1, 28, 28), 1024, 256),
    "five convolutions with GroupNorm on 32x32": (convolutions, (3, 32, 32), 256, 64),
    "transformer, 4 layers of 256, 128 tokens": (Transformer, (TOKENS,), 64, 16),
    "ResNet-18 with GroupNorm on 32x32": (resnet, (3, 32, 32), 256, 16),
    "vision transformer, 6 layers of 192": (VisionTransformer, (3, 32, 32), 128, 16),
    "LSTM classifier, 64 words": (Lstm, (64,), 256, 64),
    "LoRA of the transformer, rank 8": (lambda: Transformer(rank=8), (TOKENS,), 64, 16),
}


def batch(name: str, device: str, count: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Made-up examples for a model: numbers, or words where it takes words."""
    _, shape, on_gpu, on_cpu = MODELS[name]
    size = count or (on_gpu if device == "cuda" else on_cpu)
    generator = torch.Generator().manual_seed(0)
    words = name.startswith(("transformer", "LSTM", "LoRA"))
    x = (
        torch.randint(0, WORDS, (size, *shape), generator=generator)
        if words
        else torch.randn(size, *shape, generator=generator)
    )
    return x.to(device), torch.randint(0, CLASSES, (size,), generator=generator).to(device)
