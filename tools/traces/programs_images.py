# SPDX-License-Identifier: Apache-2.0
"""Programs on images and graphs (programs.py), each of whose steps has another size."""

import random

import torch
import torch.nn.functional as F
from torch import nn

import workloads


def _autocast(device):
    return torch.autocast(device_type=device.type, dtype=torch.bfloat16)


# ---- nets of torchvision ---------------------------------------------------------------------


def resnet50(device, scale, notes, tiny=False):
    """Training with progressive and mixed sizes."""
    import torchvision

    with torch.device(device):
        model = torchvision.models.resnet50(weights=None).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    numbers = random.Random(31)
    for _ in range(1 if tiny else 36):
        notes.step()
        side = 64 if tiny else numbers.randrange(96, 449, 32)
        batch = 2 if tiny else max(2, int(scale * 80 * 224 * 224 * numbers.uniform(0.4, 1)) // (side * side))
        images = torch.randn(batch, 3, side, side, device=device)
        labels = torch.randint(1000, (batch,), device=device)
        with _autocast(device):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def _boxes(numbers, count, height, width):
    made = []
    for _ in range(count):
        left, top = numbers.uniform(0, width * 0.7), numbers.uniform(0, height * 0.7)
        made.append([left, top, left + numbers.uniform(8, width * 0.3), top + numbers.uniform(8, height * 0.3)])
    return torch.tensor(made)


def detection(device, scale, notes, tiny=False):
    """Faster R-CNN, trained on images of all shapes, then asked about some."""
    import torchvision

    smallest = (64,) if tiny else (480, 560, 640, 720, 800)
    with torch.device(device):
        model = torchvision.models.detection.fasterrcnn_resnet50_fpn(
            weights=None, weights_backbone=None, min_size=smallest, max_size=128 if tiny else 1333).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0001, momentum=0.9)
    numbers = random.Random(32)
    for step in range(2 if tiny else 26):
        notes.step()
        images, targets = [], []
        for _ in range(1 if tiny else max(1, int(scale * numbers.randrange(2, 8)))):
            height, width = (64, 96) if tiny else (numbers.randrange(300, 1100), numbers.randrange(300, 1100))
            count = numbers.randrange(1, 24)
            images.append(torch.rand(3, height, width, device=device))
            targets.append({"boxes": _boxes(numbers, count, height, width).to(device),
                            "labels": torch.randint(1, 91, (count,)).to(device)})
        if step % 6 == 5:
            model.eval()
            with torch.inference_mode():
                model(images)
            model.train()
            continue
        losses = model(images, targets)
        sum(losses.values()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


# ---- diffusion -------------------------------------------------------------------------------


@torch.inference_mode()
def diffusion_serve(device, scale, notes, tiny=False):
    """Requests of any number and shape of images, some twice as large in a second round."""
    unet_widths, decoder_widths, text_width = (
        ((32, 64), [64, 32, 32, 32], 32) if tiny else ((320, 640, 1280), [512, 512, 256, 128], 768)
    )
    with torch.device(device):
        unet = workloads.UNet(unet_widths, text_width).to(torch.bfloat16).eval()
        decoder = workloads.Decoder(decoder_widths).to(torch.bfloat16).eval()
    numbers = random.Random(33)
    for _ in range(2 if tiny else 11):
        notes.step()
        images = 1 if tiny else max(1, int(scale * numbers.randrange(1, 17)))
        height, width = (8, 16) if tiny else (numbers.randrange(40, 100, 8), numbers.randrange(40, 100, 8))
        text = torch.randn(2 * images, 77, text_width, device=device, dtype=torch.bfloat16)
        x = torch.randn(images, 4, height, width, device=device, dtype=torch.bfloat16)
        for larger in range(2 if numbers.random() < 0.3 and not tiny else 1):
            if larger:
                images = max(1, images // 4)
                x, text = F.interpolate(x[:images], scale_factor=1.5), text[: 2 * images]
            steps = 2 if tiny else numbers.randrange(3, 6)
            for step in range(steps):
                time = torch.full((2 * images, 1), step / steps, device=device, dtype=torch.bfloat16)
                without, given = unet(torch.cat([x, x]), time, text).chunk(2)
                x = x - (without + 7.5 * (given - without)) / steps
            pixels = torch.cat([decoder(part) for part in x.split(4)])
            (pixels * 127.5 + 127.5).to(torch.uint8).cpu()
            del pixels


def diffusion_train(device, scale, notes, tiny=False):
    """Training by buckets of like shapes, with an average of the weights beside."""
    widths, text_width = ((32, 64), 32) if tiny else ((128, 256, 512), 512)
    with torch.device(device):
        unet = workloads.UNet(widths, text_width)
    average = [weight.detach().clone() for weight in unet.parameters()]
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
    numbers = random.Random(34)
    for _ in range(2 if tiny else 16):
        notes.step()
        height, width = (8, 16) if tiny else (numbers.randrange(32, 97, 8), numbers.randrange(32, 97, 8))
        batch = 2 if tiny else max(1, int(scale * 72 * 1024 * numbers.uniform(0.5, 1)) // (height * width))
        x = torch.randn(batch, 4, height, width, device=device)
        noise, time = torch.randn_like(x), torch.rand(batch, 1, device=device)
        text = torch.randn(batch, 77, text_width, device=device)
        with _autocast(device):
            loss = F.mse_loss(unet(x + noise * time[:, :, None, None], time, text).float(), noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(average, list(unet.parameters()), 0.01)


# ---- graph networks --------------------------------------------------------------------------


class Passing(nn.Module):
    """Messages along edges, summed at their ends."""

    def __init__(self, width):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))
        self.gate = nn.Linear(2 * width, 1)
        self.update = nn.GRUCell(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, sources, ends):
        both = torch.cat([x[sources], x[ends]], dim=1)
        messages = self.message(both) * torch.sigmoid(self.gate(both))
        summed = torch.zeros_like(x).index_add_(0, ends, messages.to(x.dtype))
        return self.norm(self.update(summed, x))


def graphs(device, scale, notes, tiny=False):
    """Batches of graphs, each with other nodes and edges, then one large graph's neighbourhoods."""
    width, layers = (16, 2) if tiny else (128, 4)
    with torch.device(device):
        inner = nn.Linear(32, width)
        passes = nn.ModuleList(Passing(width) for _ in range(layers))
        head = nn.Linear(width, 10)
    parameters = [*inner.parameters(), *passes.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    numbers = random.Random(35)
    for _ in range(2 if tiny else 84):
        notes.step()
        nodes = 20 if tiny else int(scale * numbers.lognormvariate(10.3, 0.6))
        nodes = min(nodes, int(100_000 * scale) + 20)
        edges = int(nodes * numbers.uniform(3, 9))
        graph_of = torch.randint(max(1, nodes // 40), (nodes,), device=device)
        x = inner(torch.randn(nodes, 32, device=device))
        sources = torch.randint(nodes, (edges,), device=device)
        ends = torch.randint(nodes, (edges,), device=device)
        for layer in passes:
            x = layer(x, sources, ends)
        pooled = torch.zeros(max(1, nodes // 40), width, device=device).index_add_(0, graph_of, x)
        loss = F.cross_entropy(head(pooled), torch.randint(10, (pooled.shape[0],), device=device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


PROGRAMS = {
    "resnet50": resnet50,
    "detection": detection,
    "diffusion_serve": diffusion_serve,
    "diffusion_train": diffusion_train,
    "graphs": graphs,
}
