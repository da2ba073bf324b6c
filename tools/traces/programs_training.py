# SPDX-License-Identifier: Apache-2.0
"""Programs that train (programs.py): on sequences of changing length, with experts, by reinforcement, on speech, and
on inputs that another stream or another thread makes."""

import contextlib
import queue
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import programs_serving as serving
import workloads


def _autocast(device):
    return torch.autocast(device_type=device.type, dtype=torch.bfloat16)


def _language(device, tiny, vocabulary, width, layers, longest):
    if tiny:
        vocabulary, width, layers, longest = 100, 64, 2, 64
    with torch.device(device):
        return workloads.Transformer(vocabulary, width, layers, max(1, width // 64), longest)


def _tokens_loss(model, tokens, run=None):
    logits = (run or model)(tokens[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].reshape(-1))


def _update(model, optimizer):
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


# ---- language models -------------------------------------------------------------------------


def gpt2(device, scale, notes, tiny=False):
    """GPT-2, batch and length anew in each step."""
    vocabulary = 100 if tiny else 50257
    model = _language(device, tiny, vocabulary, 768, 12, 1024)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    numbers = random.Random(21)
    for _ in range(2 if tiny else 30):
        notes.step()
        batch = 2 if tiny else max(1, int(scale * numbers.randrange(2, 15)))
        length = 16 if tiny else numbers.randrange(96, 1024)
        tokens = torch.randint(vocabulary, (batch, length + 1), device=device)
        with _autocast(device):
            loss = _tokens_loss(model, tokens)
        loss.backward()
        _update(model, optimizer)


def varlen_accumulate(device, scale, notes, tiny=False):
    """Gradients of four batches are summed before each update; a batch has as many texts as fit its tokens."""
    vocabulary, longest = (100, 64) if tiny else (32000, 2048)
    model = _language(device, tiny, vocabulary, 1024, 12, longest)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    numbers = random.Random(22)
    for _ in range(2 if tiny else 9):
        notes.step()
        for _ in range(4):
            length = numbers.randrange(longest // 16, longest)
            batch = max(1, int(scale * numbers.choice([4096, 6144, 8192])) // length) if not tiny else 2
            tokens = torch.randint(vocabulary, (batch, length + 1), device=device)
            with _autocast(device):
                loss = _tokens_loss(model, tokens) / 4
            loss.backward()
        _update(model, optimizer)


def varlen_checkpoint(device, scale, notes, tiny=False):
    """Each layer's inner values are computed again for its gradients."""
    vocabulary, longest = (100, 64) if tiny else (16000, 8192)
    model = _language(device, tiny, vocabulary, 1024, 16, longest)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    numbers = random.Random(23)

    def run(tokens):
        places = torch.arange(tokens.shape[1], device=device)
        x = model.tokens(tokens) + model.places(places)
        for layer in model.layers:
            x = checkpoint(layer, x, use_reentrant=False, preserve_rng_state=False)
        return model.head(model.norm(x))

    for _ in range(2 if tiny else 18):
        notes.step()
        length = numbers.randrange(longest // 8, longest)
        batch = 2 if tiny else max(1, int(scale * numbers.choice([12288, 16384, 20480])) // length)
        tokens = torch.randint(vocabulary, (batch, length + 1), device=device)
        with _autocast(device):
            loss = _tokens_loss(model, tokens, run)
        loss.backward()
        _update(model, optimizer)


# ---- mixture of experts ----------------------------------------------------------------------


class Experts(nn.Module):
    """Each token goes to two of the experts. The loads are drawn on the host, unequal, and other ones each time."""

    def __init__(self, width, inner, count, numbers):
        super().__init__()
        self.router = nn.Linear(width, count)
        self.up = nn.ModuleList(nn.Linear(width, inner) for _ in range(count))
        self.down = nn.ModuleList(nn.Linear(inner, width) for _ in range(count))
        self.numbers = numbers

    def loads(self, total):
        shares = [self.numbers.gammavariate(0.6, 1.0) + 0.01 for _ in self.up]
        loads = [int(total * share / sum(shares)) for share in shares]
        loads[0] += total - sum(loads)
        return loads

    def forward(self, x):
        flat = x.flatten(0, 1)
        weights = torch.softmax(self.router(flat), dim=-1)
        total = 2 * flat.shape[0]
        order = torch.randperm(total, device=x.device) // 2
        out = torch.zeros_like(flat)
        begin = 0
        for expert, load in enumerate(self.loads(total)):
            places = order[begin : begin + load]
            begin += load
            if load == 0:
                continue
            y = self.down[expert](F.gelu(self.up[expert](flat[places])))
            out = out.index_add(0, places, (y * weights[places, expert, None]).to(out.dtype))
        return out.view_as(x)


class ExpertLayer(nn.Module):
    def __init__(self, width, heads, experts):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = workloads.Attention(width, heads)
        self.experts = experts

    def forward(self, x):
        x = x + self.attention(self.norm_1(x), causal=True)
        return x + self.experts(self.norm_2(x))


def experts(device, scale, notes, tiny=False):
    vocabulary, width, layers, count = (100, 64, 2, 4) if tiny else (16000, 1024, 6, 8)
    numbers = random.Random(24)
    model = _language(device, tiny, vocabulary, width, 0, 2048)
    with torch.device(device):
        model.layers = nn.ModuleList(
            ExpertLayer(width, width // 64, Experts(width, 2 * width, count, numbers)) for _ in range(layers)
        )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(2 if tiny else 20):
        notes.step()
        length = 16 if tiny else numbers.randrange(256, 2048)
        batch = 2 if tiny else max(1, int(scale * numbers.randrange(4096, 10240)) // length)
        tokens = torch.randint(vocabulary, (batch, length + 1), device=device)
        with _autocast(device):
            loss = _tokens_loss(model, tokens)
        loss.backward()
        _update(model, optimizer)


# ---- reinforcement ---------------------------------------------------------------------------


def _likelihood(model, head, tokens):
    """The likelihood of each token, and a value of each place."""
    logits, _ = model(tokens[:, :-1])
    likely = logits.float().log_softmax(-1).gather(-1, tokens[:, 1:, None]).squeeze(-1)
    return likely, head(logits[..., : head.in_features].to(head.weight.dtype)).squeeze(-1)


def reinforce(device, scale, notes, tiny=False):
    """Texts are generated with growing caches, then judged by a frozen model, then learnt from for two rounds."""
    vocabulary, width, layers = (100, 64, 2) if tiny else (16000, 1024, 8)
    with torch.device(device):
        policy = serving.Served(vocabulary, width, layers, max(1, width // 64), 2 * width)
        frozen = serving.Served(vocabulary, width, layers, max(1, width // 64), 2 * width).eval()
        head = nn.Linear(64, 1)
    frozen.to(torch.bfloat16).requires_grad_(False)
    parameters = list(policy.parameters()) + list(head.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-5)
    numbers = random.Random(25)
    for _ in range(2 if tiny else 7):
        notes.step()
        batch = 2 if tiny else max(2, int(scale * numbers.randrange(16, 65)))
        tokens = torch.randint(vocabulary, (batch, 5 if tiny else numbers.randrange(48, 400)), device=device)
        with torch.no_grad(), _autocast(device):
            logits, cache = policy(tokens)
            for _ in range(2 if tiny else numbers.randrange(8, 21)):
                token = torch.multinomial(torch.softmax(logits[:, -1].float(), -1), 1)
                tokens = torch.cat([tokens, token], dim=1)
                logits, cache = policy(token, cache)
            del logits, cache
            judged, _ = _likelihood(frozen, nn.Linear(64, 1, device=device), tokens)
            before, values = _likelihood(policy, head, tokens)
            rewards = before - judged
            wins = rewards - values
        notes.step()
        for _ in range(2):
            for part in torch.arange(batch).split(max(1, batch // 3)):
                rows = slice(int(part[0]), int(part[-1]) + 1)
                with _autocast(device):
                    likely, value = _likelihood(policy, head, tokens[rows])
                    ratio = torch.exp((likely - before[rows]).clamp(-5, 5))
                    least = torch.minimum(ratio * wins[rows], ratio.clamp(0.8, 1.2) * wins[rows])
                    loss = -least.mean() + F.mse_loss(value.float(), rewards[rows])
                loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)


# ---- speech ----------------------------------------------------------------------------------


class Conformer(nn.Module):
    """A layer: half a step forward, attention with biases by distance, convolution, half a step."""

    def __init__(self, width, heads, kernel=15):
        super().__init__()
        self.heads, self.near = heads, 64
        self.first, self.last = self.step(width), self.step(width)
        self.norm_1, self.norm_2, self.norm_3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.biases = nn.Embedding(2 * self.near + 1, heads)
        self.widen = nn.Conv1d(width, 2 * width, 1)
        self.depth = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.narrow = nn.Conv1d(width, width, 1)

    def step(self, width):
        return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Dropout(0.1),
                             nn.Linear(4 * width, width))

    def attend(self, x, mask):
        batch, length, width = x.shape
        query, key, value = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        places = torch.arange(length, device=x.device)
        distance = (places[:, None] - places).clamp(-self.near, self.near) + self.near
        scores = query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5
        scores = scores + self.biases(distance).permute(2, 0, 1)
        scores = scores.masked_fill(mask[:, None, None], -1e4)
        return self.out((torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x, mask):
        x = x + 0.5 * self.first(x)
        x = x + self.attend(self.norm_1(x), mask)
        y = F.glu(self.widen(self.norm_2(x).transpose(1, 2)), dim=1)
        x = x + self.narrow(F.silu(self.depth(y))).transpose(1, 2)
        return self.norm_3(x + 0.5 * self.last(x))


class Recognizer(nn.Module):
    def __init__(self, width, layers, letters, channels):
        super().__init__()
        self.front = nn.Sequential(nn.Conv2d(1, channels, 3, 2, 1), nn.ReLU(), nn.Conv2d(channels, channels, 3, 2, 1),
                                   nn.ReLU())
        self.to_width = nn.Linear(channels * 20, width)
        self.layers = nn.ModuleList(Conformer(width, width // 64) for _ in range(layers))
        self.head = nn.Linear(width, letters)

    def forward(self, sound, lengths):
        x = self.front(sound[:, None])
        x = self.to_width(x.permute(0, 2, 1, 3).flatten(2))
        mask = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x).float().log_softmax(-1)


def speech(device, scale, notes, tiny=False):
    """Sentences of 2 to 24 seconds; a batch is padded to its longest and has as many as fit its frames."""
    letters, width, layers = (20, 64, 1) if tiny else (500, 512, 10)
    with torch.device(device):
        model = Recognizer(width, layers, letters, 8 if tiny else 192)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    numbers = random.Random(26)
    for _ in range(2 if tiny else 22):
        notes.step()
        longest = 64 if tiny else numbers.randrange(200, 2400)
        batch = 2 if tiny else max(1, min(64, int(20000 * scale) // longest))
        frames = [longest] + [numbers.randrange(longest // 2, longest + 1) for _ in range(batch - 1)]
        sound = torch.randn(batch, longest, 80, device=device)
        lengths = torch.tensor([(count - 1) // 4 + 1 for count in frames])
        texts = torch.tensor([max(1, count // 16) for count in frames])
        letters_of = torch.randint(1, letters, (batch, int(texts.max())), device=device)
        with _autocast(device):
            likely = model(sound, lengths.to(device))
        loss = F.ctc_loss(likely.transpose(0, 1), letters_of, lengths.to(device), texts.to(device))
        loss.backward()
        _update(model, optimizer)


# ---- other streams and threads ---------------------------------------------------------------


class Streams:
    """A stream beside the main one; on a processor nothing."""

    def __init__(self, device):
        self.on_gpu = device.type == "cuda"
        self.side = torch.cuda.Stream() if self.on_gpu else None

    def beside(self):
        return torch.cuda.stream(self.side) if self.on_gpu else contextlib.nullcontext()

    def hand_over(self, notes, tensor):
        """What was made on the side is used on the current stream from here on."""
        if self.on_gpu:
            torch.cuda.current_stream().wait_stream(self.side)
            notes.use(tensor, torch.cuda.current_stream())


def _make_input(device, batch, width):
    x = torch.randn(batch, width, device=device)
    x = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)
    return torch.cat([x, x.abs().sqrt()], dim=1).to(torch.bfloat16)


def side_stream(device, scale, notes, tiny=False):
    """Inputs are made on a second stream, some ahead, batch and width anew each time."""
    numbers = random.Random(27)
    widths = [32, 64] if tiny else [1024, 1536, 2048, 3072, 4096, 5120]
    models = {}
    with torch.device(device):
        for width in widths:
            net = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, width // 2))
            models[width] = net.to(torch.bfloat16)
    streams = Streams(device)
    if streams.on_gpu:
        torch.cuda.synchronize()
    ahead = []
    for step in range(6 if tiny else 520):
        notes.step()
        width = numbers.choice(widths)
        batch = 4 if tiny else max(1, int(scale * numbers.randrange(1000, 24000)))
        with streams.beside():
            ahead.append((width, _make_input(device, batch, width)))
        if len(ahead) < 4:
            continue
        width, x = ahead.pop(0)
        streams.hand_over(notes, x)
        loss = models[width](x).float().square().mean()
        loss.backward()
        del x, loss
        if step % 4 == 3:
            for model in models.values():
                model.zero_grad(set_to_none=True)


def threads_loader(device, scale, notes, tiny=False):
    """A second thread cuts and scales images on a stream of its own; the first trains a net on them."""
    steps, ahead = (3, 2) if tiny else (72, 3)
    base = 8 if tiny else 96
    with torch.device(device):
        layers, inner = [], 3
        for outer in [base] * 4 + [2 * base] * 4 + [4 * base] * 4:
            layers += [nn.Conv2d(inner, outer, 3, 2 if outer != inner else 1, 1), nn.BatchNorm2d(outer), nn.ReLU()]
            inner = outer
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 100))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    streams = Streams(device)
    if streams.on_gpu:
        torch.cuda.synchronize()
    ready = queue.SimpleQueue()

    def load(pass_on):
        numbers = random.Random(28)
        with streams.beside():
            for step in range(steps):
                side = 16 if tiny else numbers.randrange(96, 385, 16)
                batch = 2 if tiny else max(2, int(scale * 72 * 224 * 224 * numbers.uniform(0.3, 1)) // (side * side))
                parts = []
                for _ in range(4):
                    raw = torch.rand(max(1, batch // 4), 3, numbers.randrange(side, 2 * side),
                                     numbers.randrange(side, 2 * side), device=device)
                    parts.append(F.interpolate(raw, size=(side, side), mode="bilinear", antialias=True).sub_(0.5))
                    del raw
                    pass_on()
                ready.put(torch.cat(parts))
                del parts
                while ready.qsize() >= ahead:
                    pass_on()

    def train(pass_on):
        for step in range(steps):
            notes.step()
            while ready.empty():
                pass_on()
            images = ready.get()
            streams.hand_over(notes, images)
            with _autocast(device):
                loss = F.cross_entropy(model(images), torch.randint(100, (images.shape[0],), device=device))
            del images
            pass_on()
            loss.backward()
            del loss
            pass_on()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    serving.run_by_turns([load, train], 28)


PROGRAMS = {
    "gpt2": gpt2,
    "varlen_accumulate": varlen_accumulate,
    "varlen_checkpoint": varlen_checkpoint,
    "experts": experts,
    "reinforce": reinforce,
    "speech": speech,
    "side_stream": side_stream,
    "threads_loader": threads_loader,
}
