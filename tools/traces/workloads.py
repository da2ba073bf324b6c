# SPDX-License-Identifier: Apache-2.0
"""What record.py records: the shapes in which programs ask for memory, in PyTorch's own layers, with random
weights and random data. Nothing is learnt or drawn; sizes and order are those of the real thing.

    training    a transformer trained by AdamW in mixed precision, on batches padded to their longest
                sequence, the next of which is copied on a second stream meanwhile
    diffusion   requests for images of several sizes: a U-Net with guidance for some steps each, then a decoder
    decode      a language model that decodes with 67 batch sizes, 1 to 512, as servers do when they warm up:
                a static cache of keys and values, a prompt, some tokens, and sampling

A workload is a function of (device, scale, notes, tiny). Scale 1 is sized for a peak of more than 8 GiB; tiny
is small enough for a processor, to see that all of it runs. It tells notes where steps begin, and of use on
other streams.
"""

import random

import torch
import torch.nn.functional as F
from torch import nn

BATCH_SIZES = [1, 2, 4] + list(range(8, 513, 8))


def _autocast(device):
    return torch.autocast(device_type=device.type, dtype=torch.bfloat16)


# ---- training --------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, width, heads, context_width=None):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(context_width or width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, context=None, causal=False):
        batch, length, width = x.shape
        context = x if context is None else context
        query = self.query(x).view(batch, length, self.heads, -1).transpose(1, 2)
        key, value = self.key_value(context).chunk(2, dim=-1)
        key = key.view(batch, context.shape[1], self.heads, -1).transpose(1, 2)
        value = value.view(batch, context.shape[1], self.heads, -1).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm_1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm_2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x), causal=True)
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Transformer(nn.Module):
    def __init__(self, vocabulary, width, layers, heads, longest):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(longest, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.places(places)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Batches:
    """Batches of random tokens on the device, each copied while the one before it is worked on."""

    def __init__(self, device, notes, vocabulary, batch, lengths):
        self.device = device
        self.notes = notes
        self.vocabulary = vocabulary
        self.batch = batch
        self.lengths = lengths
        self.copies = torch.cuda.Stream() if device.type == "cuda" else None

    def _copy(self, length):
        host = torch.randint(self.vocabulary, (self.batch, length + 1))
        if self.copies is None:
            return host
        with torch.cuda.stream(self.copies):
            return host.pin_memory().to(self.device, non_blocking=True)

    def __iter__(self):
        following = self._copy(self.lengths[0])
        for length in self.lengths[1:] + [self.lengths[0]]:
            current = following
            if self.copies is not None:
                main = torch.cuda.current_stream()
                main.wait_stream(self.copies)
                self.notes.use(current, main)
            following = self._copy(length)
            yield current


def training(device, scale, notes, tiny=False):
    vocabulary, width, layers, longest, steps = (
        (100, 64, 2, 64, 3) if tiny else (32000, 1536, 16, 1024, 30)
    )
    batch = max(2, int(8 * scale))
    numbers = random.Random(1)
    lengths = [numbers.randrange(longest // 4, longest + 1, 8) for _ in range(steps)]
    with torch.device(device):
        model = Transformer(vocabulary, width, layers, width // 32 if tiny else width // 128, longest)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for tokens in Batches(device, notes, vocabulary, batch, lengths):
        notes.step()
        with _autocast(device):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


# ---- diffusion -------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, inner, outer, time_width=None):
        super().__init__()
        self.norm_1 = nn.GroupNorm(16, inner)
        self.conv_1 = nn.Conv2d(inner, outer, 3, padding=1)
        self.time = nn.Linear(time_width, outer) if time_width else None
        self.norm_2 = nn.GroupNorm(16, outer)
        self.conv_2 = nn.Conv2d(outer, outer, 3, padding=1)
        self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x, time=None):
        y = self.conv_1(F.silu(self.norm_1(x)))
        if self.time is not None:
            y = y + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv_2(F.silu(self.norm_2(y)))


class ImageAttention(nn.Module):
    """On the pixels themselves, and on a text."""

    def __init__(self, width, text_width):
        super().__init__()
        heads = max(1, width // 64)
        self.norm_1 = nn.LayerNorm(width)
        self.own = Attention(width, heads)
        self.norm_2 = nn.LayerNorm(width)
        self.text = Attention(width, heads, text_width)
        self.norm_3 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, text):
        batch, width, height, across = x.shape
        y = x.flatten(2).transpose(1, 2)
        y = y + self.own(self.norm_1(y))
        y = y + self.text(self.norm_2(y), text)
        y = y + self.down(F.gelu(self.up(self.norm_3(y))))
        return x + y.transpose(1, 2).reshape(batch, width, height, across)


class Stage(nn.Module):
    def __init__(self, inner, outer, time_width, text_width, attends):
        super().__init__()
        self.residual = Residual(inner, outer, time_width)
        self.attention = ImageAttention(outer, text_width) if attends else None

    def forward(self, x, time, text):
        x = self.residual(x, time)
        return x if self.attention is None else self.attention(x, text)


class UNet(nn.Module):
    def __init__(self, widths, text_width, latent=4, each=2):
        super().__init__()
        time_width = 4 * widths[0]
        self.time = nn.Sequential(nn.Linear(1, time_width), nn.SiLU(), nn.Linear(time_width, time_width))
        self.first = nn.Conv2d(latent, widths[0], 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        self.shrink, self.grow = nn.ModuleList(), nn.ModuleList()
        skips, width = [widths[0]], widths[0]
        for level, wide in enumerate(widths):
            for _ in range(each):
                self.down.append(Stage(width, wide, time_width, text_width, level > 0))
                width = wide
                skips.append(width)
            if level + 1 < len(widths):
                self.shrink.append(nn.Conv2d(width, width, 3, stride=2, padding=1))
                skips.append(width)
        self.middle = Stage(width, width, time_width, text_width, True)
        for level, wide in reversed(list(enumerate(widths))):
            for _ in range(each + 1):
                self.up.append(Stage(width + skips.pop(), wide, time_width, text_width, level > 0))
                width = wide
            if level > 0:
                self.grow.append(nn.Conv2d(width, width, 3, padding=1))
        self.norm = nn.GroupNorm(16, width)
        self.last = nn.Conv2d(width, latent, 3, padding=1)
        self.levels, self.each = len(widths), each

    def forward(self, x, time, text):
        time = self.time(time)
        x = self.first(x)
        skips = [x]
        for level in range(self.levels):
            for i in range(self.each):
                x = self.down[level * self.each + i](x, time, text)
                skips.append(x)
            if level + 1 < self.levels:
                x = self.shrink[level](x)
                skips.append(x)
        x = self.middle(x, time, text)
        for level in range(self.levels):
            for i in range(self.each + 1):
                x = torch.cat([x, skips.pop()], dim=1)
                x = self.up[level * (self.each + 1) + i](x, time, text)
            if level + 1 < self.levels:
                x = self.grow[level](F.interpolate(x, scale_factor=2.0))
        return self.last(F.silu(self.norm(x)))


class Decoder(nn.Module):
    """From latents to pixels, eight times as wide and high."""

    def __init__(self, widths, latent=4):
        super().__init__()
        self.first = nn.Conv2d(latent, widths[0], 3, padding=1)
        pairs = zip(widths[:1] + widths, widths)
        self.blocks = nn.ModuleList(
            nn.ModuleList([Residual(inner, outer), Residual(outer, outer)]) for inner, outer in pairs
        )
        self.grow = nn.ModuleList(nn.Conv2d(wide, wide, 3, padding=1) for wide in widths[:-1])
        self.last = nn.Conv2d(widths[-1], 3, 3, padding=1)

    def forward(self, x):
        x = self.first(x)
        for i, block in enumerate(self.blocks):
            for residual in block:
                x = residual(x)
            if i < len(self.grow):
                x = self.grow[i](F.interpolate(x, scale_factor=2.0))
        return self.last(F.silu(x)).clamp(-1, 1)


def diffusion(device, scale, notes, tiny=False):
    unet_widths, decoder_widths, text_width, steps = (
        ((32, 64), [64, 32, 32, 32], 32, 2)
        if tiny
        else ((320, 640, 1280), [512, 512, 256, 128], 768, 8)
    )
    # Images of a request, and the height and width of their latents.
    requests = [(1, 8, 8), (2, 8, 16)] if tiny else [
        (4, 64, 64), (1, 128, 128), (8, 64, 96), (16, 64, 64), (2, 96, 96), (24, 64, 64),
        (6, 96, 64), (1, 64, 64), (3, 128, 96), (12, 64, 64), (4, 96, 96), (24, 64, 64),
    ]  # fmt: skip
    with torch.device(device):
        unet = UNet(unet_widths, text_width).to(torch.bfloat16).eval()
        decoder = Decoder(decoder_widths).to(torch.bfloat16).eval()
    with torch.inference_mode():
        for images, height, width in requests:
            notes.step()
            images = max(1, int(images * scale))
            text = torch.randn(2 * images, 77, text_width, device=device, dtype=torch.bfloat16)
            x = torch.randn(images, 4, height, width, device=device, dtype=torch.bfloat16)
            for step in range(steps):
                time = torch.full((2 * images, 1), step / steps, device=device, dtype=torch.bfloat16)
                without, given = unet(torch.cat([x, x]), time, text).chunk(2)
                x = x - (without + 7.5 * (given - without)) / steps
            pixels = decoder(x)
            (pixels * 127.5 + 127.5).to(torch.uint8).cpu()


# ---- decode ----------------------------------------------------------------------------------


class RootNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype)


def _rotate(x, cosine, sine):
    half = x.shape[-1] // 2
    return x * cosine + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sine


class DecodeLayer(nn.Module):
    """With its part of the cache, which is as large as the largest batch and the longest text need."""

    def __init__(self, width, heads, key_heads, inner, batch_max, longest):
        super().__init__()
        self.heads, self.key_heads, self.each = heads, key_heads, width // heads
        self.norm_1, self.norm_2 = RootNorm(width), RootNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * key_heads * self.each, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        shape = (batch_max, key_heads, longest, self.each)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def forward(self, x, at, cosine, sine):
        batch, length, width = x.shape
        y = self.norm_1(x)
        query = self.query(y).view(batch, length, self.heads, self.each).transpose(1, 2)
        key, value = self.key_value(y).chunk(2, dim=-1)
        key = key.view(batch, length, self.key_heads, self.each).transpose(1, 2)
        value = value.view(batch, length, self.key_heads, self.each).transpose(1, 2)
        query, key = _rotate(query, cosine, sine), _rotate(key, cosine, sine)
        self.keys[:batch, :, at : at + length] = key
        self.values[:batch, :, at : at + length] = value
        groups = self.heads // self.key_heads
        keys = self.keys[:batch, :, : at + length].repeat_interleave(groups, dim=1)
        values = self.values[:batch, :, : at + length].repeat_interleave(groups, dim=1)
        mixed = F.scaled_dot_product_attention(query, keys, values, is_causal=length > 1)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        y = self.norm_2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Language(nn.Module):
    def __init__(self, vocabulary, width, layers, heads, key_heads, inner, batch_max, longest):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            DecodeLayer(width, heads, key_heads, inner, batch_max, longest) for _ in range(layers)
        )
        self.norm = RootNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        each = width // heads
        rates = 10000.0 ** (-torch.arange(0, each, 2).float() / each)
        angles = torch.outer(torch.arange(longest).float(), rates).repeat(1, 2)
        self.register_buffer("cosine", angles.cos().to(torch.get_default_dtype()))
        self.register_buffer("sine", angles.sin().to(torch.get_default_dtype()))

    def forward(self, tokens, at):
        length = tokens.shape[1]
        x = self.tokens(tokens)
        cosine, sine = self.cosine[at : at + length], self.sine[at : at + length]
        for layer in self.layers:
            x = layer(x, at, cosine, sine)
        return self.head(self.norm(x[:, -1])).float()


def _sample(logits):
    """One of the likeliest tokens that have nine tenths of the likelihood together."""
    ordered, places = torch.sort(torch.softmax(logits / 0.8, dim=-1), descending=True)
    ordered = ordered.masked_fill(ordered.cumsum(-1) - ordered > 0.9, 0.0)
    return places.gather(-1, torch.multinomial(ordered, 1))


def decode(device, scale, notes, tiny=False):
    vocabulary, width, layers, heads, key_heads, inner, longest = (
        (100, 64, 2, 4, 2, 128, 16)
        if tiny
        else (32000, 4096, 16, 32, 8, 11008, int(256 * scale))
    )
    prompt, tokens_each = (4, 2) if tiny else (16, 4)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            model = Language(
                vocabulary, width, layers, heads, key_heads, inner, BATCH_SIZES[-1], longest
            ).eval()
    finally:
        torch.set_default_dtype(default)
    with torch.inference_mode():
        for batch in BATCH_SIZES[:9] if tiny else BATCH_SIZES:
            notes.step()
            given = torch.randint(vocabulary, (batch, prompt), device=device)
            following = _sample(model(given, 0))
            for at in range(prompt, prompt + tokens_each):
                following = _sample(model(following, at))
            following.cpu()


WORKLOADS = {"training": training, "diffusion": diffusion, "decode": decode}
