"""Bar charts as SVG, written by hand: light and dark by the reader's own preference."""
import html
import math

COLOURS = ["#d9480f", "#f08c4a", "#ffc078", "#1864ab", "#4a90c8", "#8cbce0", "#868e96", "#5f3dc4", "#2b8a3e", "#82c091", "#c2255c"]
STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #212529; } .quiet { fill: #868e96; font-size: 11px; } .title { font-weight: 600; font-size: 14px; }
line { stroke: #dee2e6; } .one { stroke: #868e96; stroke-dasharray: 3 3; } .page { fill: #ffffff; }
@media (prefers-color-scheme: dark) { text { fill: #e9ecef; } line { stroke: #343a40; } .page { fill: #16181a; } }
</style>"""
BAR, GAP, LEFT, RIGHT, WIDTH = 9, 12, 170, 70, 900


def ticks(low, high, logarithmic):
    if logarithmic:
        steps = [m * 10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for m in (1, 2, 5)]
        return [step for step in steps if low <= step <= high]
    size = 10 ** math.floor(math.log10(high / 4 or 1))
    step = next(size * m for m in (1, 2, 5, 10) if high / (size * m) <= 6)
    return [i * step for i in range(int(high / step) + 1)]


def bar_chart(title, groups, series, unit, logarithmic=False, mark=None):
    """groups: [(name, {series: value or None})]; series: {key: label}. Bars from the left, one group beneath the other."""
    values = [v for _, group in groups for v in group.values() if v]
    if not values:
        return None
    low = min(values + ([mark] if mark else [])) / 1.3 if logarithmic else 0.0
    high = max(values + ([mark] if mark else [])) * (1.3 if logarithmic else 1.05)
    inner = WIDTH - LEFT - RIGHT

    def x(value):
        part = (math.log(value / low) / math.log(high / low)) if logarithmic else value / high
        return LEFT + inner * max(0.0, min(1.0, part))

    keys = [key for key in series if any(group.get(key) for _, group in groups)]
    per_row = max(1, (WIDTH - 20) // 200)
    top = 40 + 18 * math.ceil(len(keys) / per_row)
    heights = [BAR * sum(1 for key in keys if group.get(key)) + GAP for _, group in groups]
    height = top + sum(heights) + 30
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}">', STYLE,
             f'<rect class="page" width="{WIDTH}" height="{height}"/>', f'<text class="title" x="10" y="22">{html.escape(title)}</text>']
    for i, key in enumerate(keys):
        at, down = 10 + 200 * (i % per_row), 34 + 18 * (i // per_row)
        parts.append(f'<rect x="{at}" y="{down}" width="10" height="10" fill="{colour(series, key)}"/>'
                     f'<text x="{at + 15}" y="{down + 9}">{html.escape(series[key])}</text>')
    for tick in ticks(low, high, logarithmic):
        parts.append(f'<line x1="{x(tick):.1f}" y1="{top}" x2="{x(tick):.1f}" y2="{height - 24}"/>'
                     f'<text class="quiet" x="{x(tick):.1f}" y="{height - 10}" text-anchor="middle">{tick:g}{unit}</text>')
    if mark:
        parts.append(f'<line class="one" x1="{x(mark):.1f}" y1="{top}" x2="{x(mark):.1f}" y2="{height - 24}"/>')
    y = top + 4
    for (name, group), tall in zip(groups, heights):
        parts.append(f'<text x="{LEFT - 8}" y="{y + (tall - GAP) / 2 + 4:.1f}" text-anchor="end">{html.escape(name)}</text>')
        for key in keys:
            if not group.get(key):
                continue
            value = group[key]
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{max(0.5, x(value) - LEFT):.1f}" height="{BAR - 1}" fill="{colour(series, key)}">'
                         f'<title>{html.escape(f"{name}, {series[key]}: {value:.3g}{unit}")}</title></rect>'
                         f'<text class="quiet" x="{x(value) + 3:.1f}" y="{y + BAR - 1}" style="font-size:9px">{value:.3g}{unit}</text>')
            y += BAR
        y += GAP
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def colour(series, key):
    return COLOURS[list(series).index(key) % len(COLOURS)]
