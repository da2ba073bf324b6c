# SPDX-License-Identifier: Apache-2.0
"""Reads the wire format of protocol buffers, without a description of the messages."""


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def packed(data):
    """The numbers of a packed field."""
    numbers, at = [], 0
    while at < len(data):
        number, at = varint(data, at)
        numbers.append(number)
    return numbers


def read(data):
    """The values of each field: numbers, and bytes of texts and messages."""
    fields, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            count, at = varint(data, at)
            value = data[at:at + count]
            if len(value) != count:
                raise ValueError("a field passes the end")
            at += count
        else:
            raise ValueError(f"wire type {key & 7}")
        fields.setdefault(key >> 3, []).append(value)
    return fields
