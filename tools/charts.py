# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG, for performance.py: lines over an axis, bars by category, limits as distances from 1.

The text of a chart depends on its data alone: no date, no font's metrics, no random identifier, so a
picture changes when a figure does. Nothing but the standard library is needed.
"""
import math

WIDTH = 760
INK, GREY, FAINT, PALE = "#123", "#667", "#ddd", "#999"
TARGET = "#b13"
COLORS = ["#26c", "#ea4", "#186", "#84c", "#678"]
MET, MISSED = "#186", "#b13"


def number(value):
    """A figure to read: three digits, and thousands set apart."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def tick_text(value):
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


def at(value):
    """A place or a length in a picture, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Svg:
    """Elements of one picture."""

    def __init__(self, height, title, description):
        self.height = height
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" role="img" '
            f'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="{INK}">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(description)}</desc>",
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        ]
        self.text(20, 26, title, size=15, weight="bold")
        self.text(20, 45, description, color=GREY)

    def text(self, x, y, text, color=INK, anchor="start", size=12, weight="normal", turn=False):
        # Of what the picture has anyway nothing is said.
        styled = "".join(f' {name}="{value}"' for name, value, usual in (
            ("fill", color, INK), ("text-anchor", anchor, "start"), ("font-size", size, 12),
            ("font-weight", weight, "normal")) if value != usual)
        turned = f' transform="rotate(-90 {at(x)} {at(y)})"' if turn else ""
        self.parts.append(f'<text x="{at(x)}" y="{at(y)}"{styled}{turned}>{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, color, width=1.0, dash=""):
        thick = f' stroke-width="{width:g}"' if width != 1 else ""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        end = f"H{at(x2)}" if y1 == y2 else f"V{at(y2)}" if x1 == x2 else f"L{at(x2)} {at(y2)}"
        self.parts.append(f'<path d="M{at(x1)} {at(y1)}{end}" stroke="{color}"{thick}{dashed}/>')

    def rect(self, x, y, width, height, color):
        self.parts.append(f'<rect x="{at(x)}" y="{at(y)}" width="{at(width)}" '
                          f'height="{at(height)}" fill="{color}"/>')

    def dot(self, x, y, color, radius=4):
        self.parts.append(f'<circle cx="{at(x)}" cy="{at(y)}" r="{radius:g}" fill="{color}" '
                          'stroke="#fff"/>')

    def path(self, points, color, dash=""):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        steps = "".join(f"{'M' if i == 0 else 'L'}{at(x)} {at(y)}" for i, (x, y) in enumerate(points))
        self.parts.append(f'<path d="{steps}" fill="none" stroke="{color}" stroke-width="2"{dashed}/>')

    def end(self):
        return "\n".join(self.parts) + "\n</svg>\n"


def nice_step(span):
    """A round step that cuts the span into about five."""
    step = 10 ** math.floor(math.log10(span / 5))
    for factor in (1, 2, 5, 10):
        if step * factor * 6 >= span:
            return step * factor
    return step * 10


class Axis:
    """From values to a run of pixels, linear or logarithmic, with its ticks. On a logarithmic one, what
    is not above 0 stands at the lower end."""

    def __init__(self, values, begin, end, log, ticks=None, from_zero=True):
        self.begin, self.end, self.log = begin, end, log
        low, high = min(values), max(values)
        if log:
            self.low, self.high = math.log10(low), math.log10(high)
            pad = max(0.04 * (self.high - self.low), 0.03)
            self.low, self.high = self.low - pad, self.high + pad
            self.ticks = ticks or self.log_ticks()
        else:
            low = min(low, 0) if from_zero else low
            step = nice_step(high - low if high > low else max(abs(high), 1))
            self.low = math.floor(low / step) * step
            self.high = math.ceil(high / step + 0.05) * step
            count = round((self.high - self.low) / step)
            self.ticks = ticks or [self.low + i * step for i in range(count + 1)]

    def log_ticks(self):
        factors = (1,) if self.high - self.low > 2.2 else (1, 2, 5)
        ticks = [f * 10.0 ** e for e in range(math.floor(self.low), math.ceil(self.high) + 1)
                 for f in factors]
        return [t for t in ticks if self.low <= math.log10(t) <= self.high]

    def at(self, value):
        position = math.log10(max(value, 10 ** self.low)) if self.log else value
        return self.begin + (position - self.low) / (self.high - self.low) * (self.end - self.begin)


LEFT, TOP, BOTTOM = 78, 66, 56


def frame(svg, right, x_label, y_label, y_axis):
    bottom = svg.height - BOTTOM
    for tick in y_axis.ticks:
        y = y_axis.at(tick)
        svg.line(LEFT, y, right, y, FAINT)
        svg.text(LEFT - 8, y + 4, tick_text(tick), GREY, "end")
    svg.line(LEFT, bottom, right, bottom, PALE)
    svg.text((LEFT + right) / 2, svg.height - 14, x_label, GREY, "middle")
    svg.text(20, (TOP + bottom) / 2, y_label, GREY, "middle", turn=True)


def limit_color(targets):
    """Of the legend's entry: grey where each limit has the color of what it is for."""
    if not targets:
        return None
    return TARGET if targets[0][2] is None else GREY


def legend(svg, right, series, limits, limit_name="limit"):
    y = TOP + 10
    for i, entry in enumerate(series):
        svg.line(right + 16, y - 4, right + 36, y - 4, COLORS[i % len(COLORS)], 3,
                 entry.get("dash", ""))
        svg.text(right + 42, y, entry["name"])
        y += 20
    if limits:
        svg.line(right + 16, y - 4, right + 36, y - 4, limits, 2, "6 4")
        svg.text(right + 42, y, limit_name)


def lines(title, description, x_label, y_label, series, targets=(), log_x=True, log_y=True,
          from_zero=True, limit_name="limit"):
    """series: [{name, points: [(x, median, p10, p90)]}]; targets: [(x or None, y, which)], where None
    is a line across and a number a mark at that place; which is the place in series that it is for."""
    svg = Svg(380, title, description)
    right, bottom = WIDTH - 210, svg.height - BOTTOM
    xs = sorted({point[0] for entry in series for point in entry["points"]})
    ys = [y for entry in series for point in entry["points"] for y in point[1:]]
    ys += [target[1] for target in targets]
    if log_y:
        ys = [y for y in ys if y > 0] or [1, 10]
    x_axis = Axis(xs, LEFT + 14, right - 14, log_x, ticks=xs)
    y_axis = Axis(ys, bottom, TOP, log_y, from_zero=from_zero)
    frame(svg, right, x_label, y_label, y_axis)
    for tick in xs:
        svg.line(x_axis.at(tick), bottom, x_axis.at(tick), bottom + 4, PALE)
        svg.text(x_axis.at(tick), bottom + 18, tick_text(tick), GREY, "middle")
    for x, y, which in targets:
        at = y_axis.at(y)
        left = LEFT if x is None else x_axis.at(x) - 30
        svg.line(left, at, right, at, TARGET if which is None else COLORS[which], 2, "6 4")
    for i, entry in enumerate(series):
        color = COLORS[i % len(COLORS)]
        for x, _, p10, p90 in entry["points"]:
            svg.line(x_axis.at(x), y_axis.at(p10), x_axis.at(x), y_axis.at(p90), color, 1.5)
        points = [(x_axis.at(p[0]), y_axis.at(p[1])) for p in entry["points"]]
        svg.path(points, color, entry.get("dash", ""))
        for x, y in points:
            svg.dot(x, y, color)
    legend(svg, right, series, limit_color(targets), limit_name)
    return svg.end()


def bars(title, description, y_label, categories, series, targets=None):
    """categories: names; series: [{name, values: [(median, p10, p90) or None]}], one value for each
    category; targets: {category: value}."""
    targets = targets or {}
    svg = Svg(360, title, description)
    right, bottom = WIDTH - 210, svg.height - BOTTOM
    ys = [y for entry in series for value in entry["values"] if value for y in value]
    y_axis = Axis(ys + list(targets.values()), bottom, TOP, False)
    frame(svg, right, "", y_label, y_axis)
    slot = (right - LEFT) / len(categories)
    width = min(56, slot * 0.76 / len(series))
    for c, category in enumerate(categories):
        middle = LEFT + slot * (c + 0.5)
        svg.text(middle, bottom + 18, category, INK, "middle")
        for i, entry in enumerate(series):
            if entry["values"][c] is None:
                continue
            median, p10, p90 = entry["values"][c]
            x = middle + (i - len(series) / 2) * width
            top, zero = y_axis.at(median), y_axis.at(0)
            svg.rect(x + 1, min(top, zero), width - 2, abs(zero - top), COLORS[i % len(COLORS)])
            svg.line(x + width / 2, y_axis.at(p10), x + width / 2, y_axis.at(p90), INK, 1.2)
            svg.text(x + width / 2, min(y_axis.at(p90), top) - 5, number(median), INK, "middle", 11)
        if category in targets:
            at = y_axis.at(targets[category])
            svg.line(middle - slot * 0.45, at, middle + slot * 0.45, at, TARGET, 2, "6 4")
    legend(svg, right, series, TARGET if targets else None)
    return svg.end()


def distances(title, description, entries):
    """entries: [(name, how many times over the limit or None, text)]: 1 is at the limit, less is met."""
    row, left = 19, 350
    svg = Svg(TOP + row * len(entries) + 62, title, description)
    bottom = TOP + row * len(entries) + 8
    known = [entry[1] for entry in entries if entry[1] is not None] or [1]
    clipped = [min(max(value, 0.1), 1000) for value in known]
    axis = Axis(clipped + [0.5, 2], left, WIDTH - 160, True)
    for tick in axis.ticks:
        svg.line(axis.at(tick), TOP - 6, axis.at(tick), bottom, FAINT)
        svg.text(axis.at(tick), bottom + 16, f"{tick:g}", GREY, "middle")
    svg.line(axis.at(1), TOP - 6, axis.at(1), bottom, TARGET, 1.5, "6 4")
    svg.text((left + WIDTH - 160) / 2, bottom + 36,
             "times the limit (logarithmic): left of 1 is met, right of it missed", GREY, "middle")
    for i, (name, value, text) in enumerate(entries):
        y = TOP + row * i + 12
        svg.text(left - 12, y, name, INK if value is not None else GREY, "end")
        if value is None:
            svg.text(axis.at(1) + 8, y, "not measured", PALE)
            continue
        color = MET if value <= 1 else MISSED
        at = axis.at(min(max(value, 0.1), 1000))
        svg.line(axis.at(1), y - 4, at, y - 4, color, 3)
        svg.dot(at, y - 4, color, 5)
        svg.text(WIDTH - 146, y, text, color)
    return svg.end()


def rows(title, description, x_label, names, series, base):
    """A row for each name, with a dot for each series on a logarithmic axis. series: [{name, values: [number or
    None]}], a value for each name; base: (number, name), where the axis has a line."""
    height, left = 19, 160
    svg = Svg(TOP + height * len(names) + 62, title, description)
    right, bottom = WIDTH - 210, TOP + height * len(names) + 8
    values = [value for entry in series for value in entry["values"] if value is not None]
    axis = Axis(values + [base[0]], left, right, True)
    for tick in (1, 1.25, 1.5, 2, 3, 4, 5):
        if tick <= max(values):
            svg.line(axis.at(tick), TOP - 6, axis.at(tick), bottom, FAINT)
            svg.text(axis.at(tick), bottom + 16, f"{tick:g}", GREY, "middle")
    svg.line(axis.at(base[0]), TOP - 6, axis.at(base[0]), bottom, TARGET, 1.5, "6 4")
    svg.text((left + right) / 2, bottom + 36, x_label, GREY, "middle")
    for i, name in enumerate(names):
        svg.text(left - 12, TOP + height * i + 12, name, INK, "end")
    for s, entry in reversed(list(enumerate(series))):
        for i, value in enumerate(entry["values"]):
            if value is not None:
                svg.dot(axis.at(value), TOP + height * i + 8, COLORS[s], 5 if s == 0 else 4)
    for s, name in enumerate([entry["name"] for entry in series] + [base[1]]):
        y = TOP + 20 * s + 8
        if s < len(series):
            svg.dot(right + 24, y, COLORS[s], 5 if s == 0 else 4)
        else:
            svg.line(right + 14, y, right + 34, y, TARGET, 1.5, "6 4")
        svg.text(right + 42, y + 4, name, size=11)
    return svg.end()
