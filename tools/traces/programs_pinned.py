# SPDX-License-Identifier: Apache-2.0
"""Programs that ask for page-locked memory (record_pinned.py). Each asks for what its kind of program asks for, above
any cache: a buffer for each tensor, freed when the last reference goes.

A program is a function of (memory, scale, tiny). It takes buffers from memory (record_pinned.Memory), writes them as
its work does, and copies from them or to them on streams. The sizes come from seeds and from no device, so a machine
without a GPU records the same requests. Threads take turns in a fixed order.

    name         what it asks for
    pin_loader   a detector's data loader: images of all shapes with boxes, labels and masks, pinned by a thread of its
                 own; an evaluation with other shapes by turns; checkpoints of weights
    pin_serving  a server of a language model: caches moved to the host in pieces and back, with common beginnings;
                 inputs and outputs of each step; adapters that are loaded
"""

import collections
import random

FLOAT, HALF, LONG, BYTE = 4, 2, 8, 1
MAIN, PINNER = "main", "pinner"
COPY_IN, COPY_OUT = "copies to the device", "copies to the host"


# ---- a data loader ---------------------------------------------------------------------------


def image_shape(rng, shorter):
    """Height and width of an image whose shorter side is given: as photographs, most 3 to 4, none above 2 to 1."""
    longer = min(int(shorter * rng.choice((1.0, 1.25, 4 / 3, 4 / 3, 4 / 3, 1.5, 1.5, 16 / 9, 2.0))), 1333)
    return (shorter, longer) if rng.random() < 0.7 else (longer, shorter)


def sample_sizes(rng, shorter, masks):
    """The bytes of a sample's tensors: image, boxes, labels, areas, masks."""
    height, width = image_shape(rng, shorter)
    objects = max(1, min(60, int(rng.expovariate(1 / 7))))
    sizes = [3 * height * width * FLOAT, objects * 4 * FLOAT, objects * LONG, objects * FLOAT]
    return sizes + [objects * height * width * BYTE] if masks else sizes


def pin_batch(memory, sizes):
    """As a loader's thread pins a batch: tensor by tensor."""
    memory.thread(PINNER)
    return [memory.take(size) for size in sizes]


def consume(memory, batch):
    """The training thread copies each tensor, and lets the batch go."""
    memory.thread(MAIN)
    for buffer in batch:
        memory.copy(buffer, COPY_IN)


def run_epoch(memory, rng, batches, batch_size, ahead, shorter, masks):
    """Batches of a loader that is so many ahead. A batch is let go when the next one is there."""
    queue = collections.deque()
    current = None
    for step in range(batches):
        while len(queue) < ahead and step + len(queue) < batches:
            samples = [sample_sizes(rng, rng.choice(shorter), masks) for _ in range(batch_size)]
            queue.append(pin_batch(memory, [size for sizes in samples for size in sizes]))
        batch = queue.popleft()
        consume(memory, batch)
        if current is not None:
            memory.give(current)
        current = batch
        memory.step()
    memory.give(current)


def save_weights(memory, tensors):
    """A checkpoint: each tensor through a buffer, a few at a time on their way."""
    on_their_way = collections.deque()
    memory.thread(MAIN)
    for size in tensors:
        buffer = memory.take(size)
        memory.copy(buffer, COPY_OUT)
        on_their_way.append(buffer)
        if len(on_their_way) == 8:
            memory.give([on_their_way.popleft()])
    memory.give(on_their_way)


def pin_loader(memory, scale, tiny):
    rng = random.Random(11)
    epochs, batches, batch_size, ahead = (2, 3, 2, 2) if tiny else (4, 60, max(1, int(8 * scale)), 4)
    shorter = (64, 96) if tiny else (480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800)
    weights = [1 << 10, 1 << 14] if tiny else weights_of_detector(rng)
    for _ in range(epochs):
        run_epoch(memory, rng, batches, batch_size, ahead, shorter, masks=True)
        run_epoch(memory, rng, max(1, batches // 6), max(1, batch_size // 2), 2, shorter[-1:], masks=False)
        save_weights(memory, weights)


def weights_of_detector(rng):
    """The tensors of a backbone of four stages, with a pyramid and heads."""
    sizes = []
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for _ in range(blocks):
            for shape in ((4 * width, width), (9 * width, width), (width, 4 * width)):
                sizes.append(shape[0] * shape[1] * FLOAT)
                sizes += [shape[1] * FLOAT] * 4
    sizes += [256 * 256 * 9 * FLOAT] * 8 + [12544 * 1024 * FLOAT, 1024 * 1024 * FLOAT, 91 * 1024 * FLOAT]
    rng.shuffle(sizes)
    return sizes


# ---- a server --------------------------------------------------------------------------------


class Store:
    """Pieces of caches in the host's memory, the least recently used go. A piece has the keys and values of some
    tokens, for all layers; conversations with a common beginning have its pieces in common."""

    def __init__(self, memory, capacity):
        self.memory, self.capacity = memory, capacity
        self.pieces = collections.OrderedDict()  # {key: buffer}
        self.bytes = 0

    def save(self, key, size):
        if key in self.pieces:
            self.pieces.move_to_end(key)
            return
        while self.pieces and self.bytes + size > self.capacity:
            _, oldest = self.pieces.popitem(last=False)
            self.bytes -= oldest.size
            self.memory.give([oldest])
        buffer = self.memory.take(size)
        self.memory.copy(buffer, COPY_OUT)
        self.pieces[key] = buffer
        self.bytes += size

    def load(self, key):
        if key not in self.pieces:
            return
        self.pieces.move_to_end(key)
        self.memory.copy(self.pieces[key], COPY_IN)

    def drop(self, key):
        buffer = self.pieces.pop(key, None)
        if buffer is not None:
            self.bytes -= buffer.size
            self.memory.give([buffer])


def pieces_of(conversation, beginnings, piece_tokens, token_bytes):
    """(key, bytes) of each piece: those of the common beginning, then its own, the last one cut short."""
    name, beginning, tokens = conversation
    common = beginnings[beginning]
    for first in range(0, common + tokens, piece_tokens):
        count = min(piece_tokens, common + tokens - first)
        owner = beginning if first + count <= common else name
        yield (owner, first, count), count * token_bytes


def serve_step(memory, rng, batch, vocabulary):
    """The inputs and outputs of a step: token ids, positions, tables of blocks, sampling; logits at times."""
    memory.thread(MAIN)
    tokens = batch if rng.random() < 0.8 else batch + rng.randrange(16, 2048)
    inputs = [memory.take(size) for size in (tokens * LONG, tokens * LONG, batch * FLOAT, batch * FLOAT,
                                             batch * rng.randrange(16, 512) * FLOAT)]
    for buffer in inputs:
        memory.copy(buffer, COPY_IN)
    outputs = [memory.take(batch * LONG)]
    if rng.random() < 0.1:
        outputs.append(memory.take(batch * vocabulary * HALF))
    for buffer in outputs:
        memory.copy(buffer, COPY_OUT)
    memory.give(inputs)
    memory.step()
    return outputs


def load_adapter(memory, rng, layers, width):
    """Low-rank weights, four of each layer."""
    rank = rng.choice((8, 16, 16, 32, 64))
    buffers = [memory.take(size) for _ in range(layers) for size in [rank * width * HALF] * 4]
    for buffer in buffers:
        memory.copy(buffer, COPY_IN)
    return buffers


def pin_serving(memory, scale, tiny):
    rng = random.Random(23)
    layers, width, vocabulary = (2, 64, 100) if tiny else (32, 4096, 128256)
    piece_tokens, steps = (16, 40) if tiny else (256, 2500)
    token_bytes = layers * 2 * (width // 4) * HALF
    capacity = int((1 << 20 if tiny else 1 << 30) * scale)
    store = Store(memory, capacity)
    beginnings = {f"beginning {i}": rng.randrange(64, 2048) for i in range(6)}
    asleep = []
    outputs = []
    for step in range(steps):
        batch = 1 + int(48 * rng.betavariate(2, 2))
        memory.give(outputs)
        outputs = serve_step(memory, rng, batch, vocabulary)
        if rng.random() < 0.25:  # a conversation falls asleep: its cache moves to the host
            tokens = min(16384, int(rng.lognormvariate(6.5, 1.1))) // (16 if tiny else 1) + 1
            conversation = (f"conversation {step}", rng.choice(sorted(beginnings)), tokens)
            asleep.append(conversation)
            for key, size in pieces_of(conversation, beginnings, piece_tokens, token_bytes):
                store.save(key, size)
        if asleep and rng.random() < 0.2:  # one goes on: its cache comes back; it may end for good
            conversation = asleep.pop(rng.randrange(max(0, len(asleep) - 40), len(asleep)))
            for key, _ in pieces_of(conversation, beginnings, piece_tokens, token_bytes):
                store.load(key)
                if key[0] == conversation[0] and rng.random() < 0.3:
                    store.drop(key)
        if rng.random() < 0.02:
            memory.give(load_adapter(memory, rng, layers, width))
    memory.give(outputs)


PROGRAMS = {"pin_loader": pin_loader, "pin_serving": pin_serving}
