# SPDX-License-Identifier: Apache-2.0
"""Programs that serve language models (programs.py): caches that grow, are shared, evicted and put in another order,
adapters, and servers in threads.

A cache is a list with a pair of keys and values for each layer, each (batch, heads, length, width of a head)."""

import collections
import concurrent.futures
import contextlib
import random
import threading

import torch
import torch.nn.functional as F
from torch import nn


class ServedLayer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def project(self, x):
        """Query, key and value of what comes in."""
        y = self.norm_1(x)
        return self.split(self.query(y)), self.split(self.key(y)), self.split(self.value(y))

    def finish(self, x, mixed):
        """The rest of the layer, behind its attention."""
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        y = self.norm_2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def forward(self, x, past):
        """past: keys and values to attend to before the new ones, or None. Returns those with the new ones, too."""
        query, key, value = self.project(x)
        if past is not None:
            key, value = torch.cat([past[0], key], dim=2), torch.cat([past[1], value], dim=2)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=past is None)
        return self.finish(x, mixed), (key, value)


class Served(nn.Module):
    def __init__(self, vocabulary, width, layers, heads, inner):
        super().__init__()
        self.vocabulary = vocabulary
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(ServedLayer(width, heads, inner) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, cache=None, between=None):
        """Logits of all places, and the cache with the new places. between() is called behind each layer."""
        x = self.tokens(tokens)
        grown = []
        for i, layer in enumerate(self.layers):
            x, pair = layer(x, cache[i] if cache else None)
            grown.append(pair)
            if between:
                between()
        return self.head(self.norm(x)), grown


def make_served(device, tiny, layers, width=2048, vocabulary=50257):
    if tiny:
        layers, width, vocabulary = 2, 64, 100
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            return Served(vocabulary, width, layers, max(1, width // 128), width * 11 // 4).eval()
    finally:
        torch.set_default_dtype(default)


def random_tokens(model, device, *shape):
    return torch.randint(model.vocabulary, shape, device=device)


def likeliest(logits):
    """The next token of each row, by the logits of the last place as floats."""
    return torch.softmax(logits[:, -1:].float(), dim=-1).argmax(-1)


def tokens_of(cache):
    return cache[0][0].shape[0] * cache[0][0].shape[2]


# ---- caches that grow ------------------------------------------------------------------------


@torch.inference_mode()
def serve_growing(device, scale, notes, tiny=False):
    """A batch after the other: logits of the whole prompt, then tokens one by one; each makes every cache anew."""
    model = make_served(device, tiny, 12)
    numbers = random.Random(11)
    for _ in range(3 if tiny else 24):
        notes.step()
        batch = 2 if tiny else max(1, int(scale * numbers.choice([1, 2, 3, 4, 6, 8, 12, 16])))
        length = numbers.randrange(4, 12) if tiny else numbers.randrange(64, 1025)
        logits, cache = model(random_tokens(model, device, batch, length))
        likelihoods = logits.float().log_softmax(-1)
        token = likelihoods[:, -1:].argmax(-1)
        del logits, likelihoods
        for _ in range(2 if tiny else numbers.randrange(4, 13)):
            logits, cache = model(token, cache)
            token = likeliest(logits)
        token.cpu()


# ---- caches that are shared ------------------------------------------------------------------


class Prefixes:
    """Caches of beginnings that requests share: a system's prompt, and documents behind it. The one that was
    needed longest ago goes when there are too many tokens."""

    def __init__(self, model, device, tokens_max):
        self.model, self.device, self.tokens_max = model, device, tokens_max
        self.known = collections.OrderedDict()

    def get(self, name, length, before):
        """The cache of this part alone, computed behind the part before."""
        if name in self.known:
            self.known.move_to_end(name)
            return self.known[name]
        _, whole = self.model(random_tokens(self.model, self.device, 1, length), before)
        own = [(key[:, :, -length:].clone(), value[:, :, -length:].clone()) for key, value in whole]
        self.known[name] = own
        while sum(map(tokens_of, self.known.values())) > self.tokens_max:
            self.known.popitem(last=False)
        return own


def join_caches(caches, batch):
    """One cache of several parts, for each of a batch."""
    joined = []
    for pairs in zip(*caches):
        joined.append(tuple(torch.cat([pair[i].expand(batch, -1, -1, -1) for pair in pairs], dim=2) for i in (0, 1)))
    return joined


@torch.inference_mode()
def serve_shared(device, scale, notes, tiny=False):
    model = make_served(device, tiny, 8)
    numbers = random.Random(12)
    prefixes = Prefixes(model, device, 60 if tiny else int(44000 * scale))
    systems = [numbers.randrange(4, 9) if tiny else numbers.randrange(256, 1025) for _ in range(6)]
    documents = [numbers.randrange(8, 20) if tiny else numbers.randrange(300, 3001) for _ in range(72)]
    for _ in range(6 if tiny else 64):
        notes.step()
        document = min(int(numbers.paretovariate(0.6)) - 1, len(documents) - 1)
        system = document % len(systems)
        first = prefixes.get(("system", system), systems[system], None)
        second = prefixes.get(("document", document), documents[document], first)
        batch = numbers.randrange(1, 4) if tiny else numbers.randrange(1, 11)
        cache = join_caches([first, second], batch)
        length = 3 if tiny else numbers.randrange(16, 257)
        logits, cache = model(random_tokens(model, device, batch, length), cache)
        for _ in range(2):
            logits, cache = model(likeliest(logits), cache)
        likeliest(logits).cpu()


# ---- caches that are evicted -----------------------------------------------------------------


class Conversation:
    """The cache has room for some more tokens; a larger cache takes its place when it is full. Beyond a window the
    oldest tokens go."""

    ROUND = 256

    def __init__(self, length, turns):
        self.length, self.turns = length, turns
        self.room = 0
        self.cache = None

    def grow(self, like):
        """Room for a token more in each layer's part."""
        if self.length < self.room:
            return
        self.room += max(self.ROUND, self.room // 2 // self.ROUND * self.ROUND)
        for i, (key, value) in enumerate(self.cache):
            made = []
            for old in (key, value):
                larger = like.new_empty(1, old.shape[1], self.room, old.shape[3])
                larger[:, :, : self.length] = old[:, :, : self.length]
                made.append(larger)
            self.cache[i] = tuple(made)

    def slide(self, window):
        if self.length <= window:
            return
        kept = window // 2
        last = slice(self.length - kept, self.length)
        self.cache = [tuple(part[:, :, last].clone() for part in pair) for pair in self.cache]
        self.length = self.room = kept


def decode_together(model, conversations, device):
    """A token for each conversation: what has no past is done for all at once, attention for each alone."""
    x = model.tokens(random_tokens(model, device, len(conversations), 1))
    for i, layer in enumerate(model.layers):
        query, key, value = layer.project(x)
        mixed = []
        for row, conversation in enumerate(conversations):
            keys, values = conversation.cache[i]
            keys[:, :, conversation.length] = key[row, :, 0]
            values[:, :, conversation.length] = value[row, :, 0]
            until = conversation.length + 1
            mixed.append(F.scaled_dot_product_attention(query[row : row + 1], keys[:, :, :until], values[:, :, :until]))
        x = layer.finish(x, torch.cat(mixed))
    likeliest(model.head(model.norm(x)))
    for conversation in conversations:
        conversation.length += 1


@torch.inference_mode()
def serve_evicted(device, scale, notes, tiny=False):
    model = make_served(device, tiny, 8)
    numbers = random.Random(13)
    budget, window, longest = (80, 24, 30) if tiny else (int(44000 * scale), 4200, 5000)
    conversations = collections.OrderedDict()
    for step in range(6 if tiny else 36):
        notes.step()
        for part in range(2):  # new conversations come in
            length, turns = numbers.randrange(4 if tiny else 100, longest), numbers.randrange(1, 8)
            conversations[step, part] = Conversation(length, turns)
        active = numbers.sample(sorted(conversations), min(len(conversations), numbers.randrange(2, 9)))
        for name in active:
            conversation = conversations[name]
            conversations.move_to_end(name)
            if conversation.cache is None:  # new, or evicted since
                tokens = random_tokens(model, device, 1, conversation.length)
                conversation.cache, conversation.room = list(model(tokens)[1]), conversation.length
            conversation.turns -= 1
        while sum(kept.room for kept in conversations.values() if kept.cache) > budget:
            oldest = next(name for name, kept in conversations.items() if kept.cache)
            if oldest in active:
                break
            conversations[oldest].cache = None
        chosen = [conversations[name] for name in active]
        for _ in range(2 if tiny else numbers.randrange(2, 6)):
            for conversation in chosen:
                conversation.slide(window)
                conversation.grow(model.head.weight)
            decode_together(model, chosen, device)
        for name in active:
            if conversations[name].turns <= 0:
                del conversations[name]


# ---- caches in another order -----------------------------------------------------------------


class Translator(nn.Module):
    """Decoder layers that attend to their own past and to an encoded text."""

    def __init__(self, vocabulary, width, layers, heads):
        super().__init__()
        self.vocabulary = vocabulary
        self.own = Served(vocabulary, width, layers, heads, 2 * width)
        self.texts = nn.ModuleList(ServedLayer(width, heads, width) for _ in range(layers))

    def encode(self, tokens, beams):
        """Keys and values of the text for each layer, repeated for each beam."""
        x = self.own.tokens(tokens)
        pairs = []
        for layer in self.texts:
            query, key, value = layer.project(x)
            x = layer.finish(x, F.scaled_dot_product_attention(query, key, value))
            pairs.append((key.repeat_interleave(beams, 0), value.repeat_interleave(beams, 0)))
        return pairs

    def forward(self, tokens, cache, texts):
        x = self.own.tokens(tokens)
        grown = []
        for i, layer in enumerate(self.own.layers):
            x, pair = layer(x, cache[i] if cache else None)
            grown.append(pair)
            mixed = F.scaled_dot_product_attention(self.texts[i].project(x)[0], *texts[i])
            x = self.texts[i].finish(x, mixed)
        return self.own.head(self.own.norm(x)), grown


@torch.inference_mode()
def serve_beams(device, scale, notes, tiny=False):
    """Translation with beams: each token puts all caches in another order, and finished texts leave the batch."""
    vocabulary, width, layers, beams = (100, 64, 2, 2) if tiny else (32000, 1024, 6, 6)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            model = Translator(vocabulary, width, layers, max(1, width // 64)).eval()
    finally:
        torch.set_default_dtype(default)
    numbers = random.Random(14)
    for _ in range(2 if tiny else 9):
        notes.step()
        batch = 3 if tiny else max(2, int(scale * numbers.randrange(12, 65)))
        texts = model.encode(random_tokens(model, device, batch, 6 if tiny else numbers.randrange(48, 513)), beams)
        token, cache = random_tokens(model, device, batch * beams, 1), None
        for place in range(4 if tiny else 20):
            logits, cache = model(token, cache, texts)
            likely = logits[:, -1].float().log_softmax(-1).view(batch, -1).topk(beams).indices
            rows = torch.arange(batch, device=device)[:, None] * beams
            order = (rows + likely // vocabulary).flatten()
            token = (likely % vocabulary).view(-1, 1)
            gone = numbers.randrange(0, max(2, batch // 6)) if place % 3 == 2 else 0
            if 0 < gone < batch:
                batch -= gone
                order, token = order[: batch * beams], token[: batch * beams]
                texts = [tuple(part[: batch * beams].clone() for part in pair) for pair in texts]
            cache = [tuple(part.index_select(0, order) for part in pair) for pair in cache]
        token.cpu()


# ---- adapters --------------------------------------------------------------------------------


LINEARS = ("query", "key", "value", "out", "gate", "up", "down")


class Adapted(nn.Module):
    """A linear map, and the low-rank one that is swapped in."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.adapter = None

    def forward(self, x):
        y = self.base(x)
        if self.adapter is None:
            return y
        down, up = self.adapter
        return y + F.linear(F.linear(x, down), up)


def host_adapter(model, rank):
    """Weights of all layers on the host, as if from a file."""
    made = []
    for layer in model.layers:
        for name in LINEARS:
            weight = getattr(layer, name).base.weight
            made.append((torch.zeros(rank, weight.shape[1], dtype=weight.dtype),
                         torch.zeros(weight.shape[0], rank, dtype=weight.dtype)))
    return made


def adapted_maps(model):
    return [getattr(layer, name) for layer in model.layers for name in LINEARS]


@torch.inference_mode()
def adapters(device, scale, notes, tiny=False):
    """Requests for one of many adapters; some are merged into the weights for as long as their requests come."""
    model = make_served(device, tiny, 8)
    for layer in model.layers:
        for name in LINEARS:
            setattr(layer, name, Adapted(getattr(layer, name)))
    numbers = random.Random(15)
    ranks = [numbers.choice([2, 4] if tiny else [8, 16, 32, 64, 128, 256]) for _ in range(28)]
    bytes_max = (1 << 16) if tiny else int((3 << 29) * scale)
    loaded = collections.OrderedDict()
    for request in range(5 if tiny else 44):
        notes.step()
        which = min(int(numbers.paretovariate(0.5)) - 1, len(ranks) - 1)
        if which not in loaded:
            pairs = [tuple(part.to(device) for part in pair) for pair in host_adapter(model, ranks[which])]
            loaded[which] = (pairs, sum(part.nbytes for pair in pairs for part in pair))
        loaded.move_to_end(which)
        while len(loaded) > 1 and sum(size for _, size in loaded.values()) > bytes_max:
            loaded.popitem(last=False)
        merge = request % 11 == 10
        kept = []
        for linear, (down, up) in zip(adapted_maps(model), loaded[which][0]):
            if merge:
                kept.append(linear.base.weight)
                linear.base.weight = nn.Parameter(linear.base.weight + up @ down, requires_grad=False)
            else:
                linear.adapter = (down, up)
        batch = 2 if tiny else max(1, int(scale * numbers.randrange(1, 17)))
        length = 5 if tiny else numbers.randrange(48, 700)
        logits, cache = model(random_tokens(model, device, batch, length))
        for _ in range(2):
            logits, cache = model(likeliest(logits), cache)
        likeliest(logits).cpu()
        for i, linear in enumerate(adapted_maps(model)):
            linear.adapter = None
            if merge:
                linear.base.weight = kept[i]


# ---- threads ---------------------------------------------------------------------------------


class Turns:
    """Threads that run by turns, in an order drawn from a seed: so each run makes the same trace. When a thread
    fails, the others do at their next turn."""

    def __init__(self, count, seed):
        self.numbers = random.Random(seed)
        self.there = list(range(count))
        self.whose = 0
        self.failed = False
        self.changed = threading.Condition()

    def wait(self, me):
        with self.changed:
            self.changed.wait_for(lambda: self.whose == me)

    def draw(self):
        self.whose = self.numbers.choice(self.there) if self.there else None
        self.changed.notify_all()

    def pass_on(self, me):
        with self.changed:
            self.draw()
            self.changed.wait_for(lambda: self.whose == me)
            if self.failed:
                raise RuntimeError("another thread has failed")

    def leave(self, me, failed):
        with self.changed:
            self.failed = self.failed or failed
            self.there.remove(me)
            self.draw()


def on_stream_of_its_own(device):
    return torch.cuda.stream(torch.cuda.Stream()) if device.type == "cuda" else contextlib.nullcontext()


def run_by_turns(functions, seed):
    """Runs each function in a thread, with a function that passes the turn on."""
    turns = Turns(len(functions), seed)

    def run(me):
        turns.wait(me)
        failed = True
        try:
            functions[me](lambda: turns.pass_on(me))
            failed = False
        finally:
            turns.leave(me, failed)

    with concurrent.futures.ThreadPoolExecutor(len(functions)) as pool:
        for done in [pool.submit(run, me) for me in range(len(functions))]:
            done.result()


def threads_serve(device, scale, notes, tiny=False):
    """Four servers of one model, each with a stream and requests of its own."""
    model = make_served(device, tiny, 8, width=1536, vocabulary=32000)
    if device.type == "cuda":
        torch.cuda.synchronize()

    def server(number):
        @torch.inference_mode()
        def serve(pass_on):
            numbers = random.Random(1600 + number)
            with on_stream_of_its_own(device):
                for _ in range(2 if tiny else 12):
                    notes.step()
                    batch = 2 if tiny else max(1, int(scale * numbers.randrange(1, 9)))
                    length = 4 if tiny else numbers.randrange(32, 1200)
                    logits, cache = model(random_tokens(model, device, batch, length), None, pass_on)
                    token = logits.float().log_softmax(-1)[:, -1:].argmax(-1)
                    for _ in range(2 if tiny else numbers.randrange(2, 5)):
                        logits, cache = model(token, cache, pass_on)
                        token = likeliest(logits)
                    token.cpu()
                    del logits, cache, token
        return serve

    run_by_turns([server(number) for number in range(4)], 16)


PROGRAMS = {
    "serve_growing": serve_growing,
    "serve_shared": serve_shared,
    "serve_evicted": serve_evicted,
    "serve_beams": serve_beams,
    "adapters": adapters,
    "threads_serve": threads_serve,
}
