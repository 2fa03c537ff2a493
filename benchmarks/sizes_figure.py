"""Draw docs/sizes.svg: a tree and one-vs-rest in labeltree's own format, for each dataset."""

from labeltree.base.system import human_bytes

WIDTH, LEFT, RIGHT = 760, 190, 120
TEXT, TREE, ONE_VS_REST = "#1f2933", "#d1495b", "#b8c4ce"
BAR, ROW, TOP = 16, 54, 62


def draw_sizes(shapes):
    """Return the figure as SVG, datasets with the smallest one-vs-rest first."""
    ordered = sorted(shapes.items(), key=lambda item: item[1]["one_vs_rest_bytes"])
    scale = (WIDTH - LEFT - RIGHT) / max(shape["one_vs_rest_bytes"] for shape in shapes.values())
    height = TOP + ROW * len(ordered)
    described = "; ".join(
        f"{name}: one-vs-rest {human_bytes(shape['one_vs_rest_bytes'])}, "
        f"tree {human_bytes(shape['model_bytes'])}"
        for name, shape in ordered
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="system-ui, sans-serif" font-size="14" role="img" '
        f'aria-label="Model sizes. {described}">',
        f'  <rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        f'  <g fill="{TEXT}">',
        '    <text x="20" y="32" font-size="16" font-weight="600">Size of an unpruned model: '
        f'<tspan fill="{TREE}">label tree</tspan> and one-vs-rest</text>',
    ]
    bars = []
    for i, (name, shape) in enumerate(ordered):
        y = TOP + ROW * i
        lines.append(
            f'    <text x="{LEFT - 12}" y="{y + 13}" text-anchor="end" font-weight="600">{name}</text>'
        )
        lines.append(
            f'    <text x="{LEFT - 12}" y="{y + 30}" text-anchor="end" font-size="12">'
            f"{shape['labels']:,} labels</text>"
        )
        for row, (key, color, note) in enumerate(
            (
                ("one_vs_rest_bytes", ONE_VS_REST, ""),
                ("model_bytes", TREE, f" ({shape['model_bytes'] / shape['one_vs_rest_bytes']:.1%})"),
            )
        ):
            top, width = y + (BAR + 2) * row, scale * shape[key]
            bars.append(f'  <rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}" fill="{color}"/>')
            lines.append(
                f'    <text x="{LEFT + width + 8:.1f}" y="{top + 13}">{human_bytes(shape[key])}{note}</text>'
            )
    return "\n".join([*lines, "  </g>", *bars, "</svg>"]) + "\n"
