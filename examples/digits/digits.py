#!/usr/bin/env python3
"""Trains the demo's model: a small network that reads 16x16 pictures of digits.

    python examples/digits/digits.py     # needs PyTorch; about half a minute on two cores

Writes beside itself: model.pt2 (the exported program), sample.npy (16 pictures the network was not trained on, float32
[16, 256]) and sample_labels.txt. They are committed, so the demo needs no Python. The data set is made here: a 5x7 font,
drawn at a random size, place and slant, blurred, with noise.
"""
import pathlib
import sys

import numpy
import torch
from torch.nn import functional

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))
from save_model import save_model  # noqa: E402

SIDE = 16
FONT = """
.###. ..#.. .###. ##### ...#. ##### ..##. ##### .###. .###.
#...# .##.. #...# ...#. ..##. #.... .#... ....# #...# #...#
#..## ..#.. ....# ..#.. .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. ...#. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ...#.
.###. .###. ##### .###. ...#. .###. .###. .#... .###. .##..
"""


def font():
    """The ten glyphs as float tensors of 7x5."""
    rows = [line.split() for line in FONT.split("\n") if line]
    return torch.tensor([[[float(c == "#") for c in row[digit]] for row in rows] for digit in range(10)])


def make_pictures(count, generator):
    """Random pictures [count, 256] with values in 0..1, and the digits they show."""
    def uniform(low, high):
        return torch.rand(count, generator=generator) * (high - low) + low

    labels = torch.randint(0, 10, (count,), generator=generator)
    glyphs = functional.interpolate(font()[labels].unsqueeze(1), size=(28, 20), mode="nearest")
    glyphs = functional.pad(glyphs, (18, 18, 14, 14))  # 56x56, the glyph in the middle
    glyphs = functional.avg_pool2d(functional.avg_pool2d(glyphs, 3, 1, 1), 3, 1, 1)  # soft edges
    scale, slant, turn = uniform(0.75, 1.15), uniform(-0.25, 0.25), uniform(-0.15, 0.15)
    zero = torch.zeros(count)
    place = torch.stack([
        torch.stack([0.62 / scale * turn.cos(), slant - turn.sin(), uniform(-0.14, 0.14)], 1),
        torch.stack([turn.sin() + zero, 0.62 / scale * turn.cos(), uniform(-0.14, 0.14)], 1),
    ], 1)
    grid = functional.affine_grid(place, [count, 1, SIDE, SIDE], align_corners=False)
    pictures = functional.grid_sample(glyphs, grid, align_corners=False).view(count, -1)
    pictures = pictures * uniform(0.6, 1.0).unsqueeze(1)
    noise = torch.randn(pictures.shape, generator=generator) * uniform(0.02, 0.2).unsqueeze(1)
    return (pictures + noise).clamp(0, 1), labels


class Digits(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = torch.nn.Linear(SIDE * SIDE, 128)
        self.layer2 = torch.nn.Linear(128, 64)
        self.layer3 = torch.nn.Linear(64, 10)

    def scores(self, pictures):
        hidden = torch.relu(self.layer1(pictures))
        hidden = torch.relu(self.layer2(hidden))
        return self.layer3(hidden)

    def forward(self, pictures):
        probabilities = torch.softmax(self.scores(pictures), dim=1)
        return probabilities, probabilities.argmax(dim=1)


def train(model, generator, steps=2500, batch=256):
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        pictures, labels = make_pictures(batch, generator)
        loss = functional.cross_entropy(model.scores(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 250 == 0:
            print(f"step {step:5}: loss {loss.item():.4f}", flush=True)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(2)
    generator = torch.Generator().manual_seed(2)
    model = Digits()
    train(model, generator)
    model.eval().requires_grad_(False)

    unseen = torch.Generator().manual_seed(3)
    pictures, labels = make_pictures(20000, unseen)
    accuracy = (model(pictures)[1] == labels).float().mean().item()
    print(f"accuracy on 20000 unseen pictures: {accuracy:.2%}")
    if accuracy < 0.97:
        sys.exit("the network did not learn enough")

    sample = torch.stack([pictures[(labels == k % 10).nonzero()[k // 10, 0]] for k in range(16)])
    batch = torch.export.Dim("batch", min=1, max=1024)
    program = torch.export.export(model, (sample,), dynamic_shapes={"pictures": {0: batch}})
    save_model(program, HERE / "model.pt2")
    numpy.save(HERE / "sample.npy", sample.numpy())
    (HERE / "sample_labels.txt").write_text("".join(f"{k % 10}\n" for k in range(16)))


if __name__ == "__main__":
    main()
