"""The models of docs/debugging.md and docs/minifier.md. Run with PyTorch it writes the files that the documents' commands
use (tests/docs_test.sh); they are committed, so running the test needs no PyTorch."""
import pathlib
import sys

import torch
from torch import nn

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent.parent / "tools"))
from save_model import save_model  # noqa: E402


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 4)
        nn.init.constant_(self.up.bias, -0.5)

    def forward(self, x):
        h = torch.relu(self.up(x))
        s = torch.log(h)
        return self.down(torch.softmax(s, dim=-1))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(10, 16)
        self.relu = nn.ReLU()
        self.sigmoid = nn.Sigmoid()

    def forward(self, x):
        return self.sigmoid(self.relu(self.fc1(x)))


class Keyed(nn.Module):
    def forward(self, x):
        return {"last_hidden_state": x + 1, "past": [x * 2, x - 1]}


class WithNone(nn.Module):
    def forward(self, x):
        return {"hidden": x + 1, "attentions": None, "scale": x * 2}


torch.manual_seed(0)
x = torch.randn(3, 8)
batch = {"x": {0: torch.export.Dim("batch", min=1, max=64)}}
save_model(torch.export.export(Net().eval(), (x,), dynamic_shapes=batch), here / "net.pt2")
padded = x.clone()
padded[1] = 0
torch.save([padded], here / "padded.pt")
torch.save([torch.zeros(100, 8)], here / "large.pt")
save_model(torch.export.export(Model().eval(), (torch.randn(8, 10),)), here / "model.pt2")
save_model(torch.export.export(Keyed().eval(), (torch.randn(2, 3),)), here / "keyed.pt2")
save_model(torch.export.export(WithNone().eval(), (torch.randn(2, 3),)), here / "with_none.pt2",
           extra_files={"labels.txt": "cat dog"})
