# SPDX-License-Identifier: BSD-2-Clause
"""The figures that a user compares, chosen from bench.json: one table as Markdown, and a picture."""
from html import escape

# group, name for users, case, figure
ROWS = (
    ("In", "Kafka", "kafka-ingest", "ingest"),
    ("In", "Kafka, appendfsync always", "kafka-ingest-always", "ingest, fsync always"),
    ("In", "MQTT, QoS 1, one connection", "mqtt-in", "in, 1 worker"),
    ("In", "HTTP, one job per request", "http-publish", "HTTP publish, to a route"),
    ("In", "HTTP, appendfsync always", "http-publish-always", "HTTP publish, fsync always"),
    ("In", "HTTP, 100 jobs per request", "http-publish", "HTTP publish, 100 a request"),
    ("Out, all due at once", "Kafka", "kafka-backlog", "backlog, first to last"),
    ("Out, all due at once", "MQTT, QoS 1", "mqtt-out", "out"),
    ("Out, all due at once", "HTTP callbacks", "http-callbacks", "HTTP callbacks"),
    ("Out, all due at once", "pull queue", "peer-due", "pull queue, all due at once"),
    ("Out, all due at once", "pull queue, appendfsync always", "peer-due-always", "pull queue, all due at once"),
    ("In and out", "the core alone, at the same time", "engine-whole", "in and out"),
    ("In and out", "Kafka to Kafka, steady", "kafka-steady", "sustained"),
    ("In and out", "lmstfy API: publish, pull, ack", "lmstfy-cycle", "lmstfy-cycle per_s"),
    *((f"Lateness at {rate:,}/s", f"{way} {share}", f"lateness-{way.lower()}", f"{way} {rate}/s {share}")
      for rate in (1000, 5000) for way in ("callbacks", "MQTT", "Kafka", "pull") for share in ("p50", "p99")),
    *((f"Lateness at {rate:,}/s, appendfsync always", f"{way} p99", "lateness-always", f"{way}, fsync always, {rate}/s p99")
      for rate in (1000, 5000) for way in ("callbacks", "MQTT", "Kafka", "pull")),
    ("Memory of Redis", "job due soon", "memory-per-job", "100 B, near, producer's id"),
    ("Memory of Redis", "job due in hours", "memory-per-job", "100 B, far, producer's id"),
    ("Memory of Redis", "Kafka record due in hours", "memory-per-job", "100 B, far, record of Kafka"),
)
WIDTH, LINE, LEFT, BAR, TOP = 900, 22, 320, 240, 60
LONGEST = 3.0  # a bar ends at this ratio


def chosen(entries):
    """Returns [(group, name, row of the figure)] of those that were measured."""
    figures = {entry["case"]: {row["name"]: row for row in entry["figures"]} for entry in entries if "error" not in entry}
    return [(group, what, figures[case][name]) for group, what, case, name in ROWS if case in figures]


def markdown(rows, number):
    """number: formats a value."""
    lines = ["| | | unit | least | median | most | limit or peer | its median | ratio |", "|---|---|---|--:|--:|--:|---|--:|--:|"]
    for group, what, row in rows:
        limit = row.get("limit")
        cells = [group, what, row["unit"], number(row["least"]), number(row["median"]), number(row["most"]),
                 limit["what"] if limit else "", number(limit["median"]) if limit else "",
                 f"{row['ratio']:.2f}" if row.get("ratio") is not None else ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def svg(rows, number):
    """Draws bars for the rows with a limit or a peer. The line is the limit."""
    rows = [(f"{group}: {what}", row) for group, what, row in rows if row.get("ratio")]
    bars = [min(row["ratio"], LONGEST) for _, row in rows]
    scale = BAR / max([*bars, 1.0])
    height = TOP + LINE * len(rows) + 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
           'font-family="sans-serif" font-size="12" fill="#222222">',
           f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
           '<text x="14" y="26" font-size="16" font-weight="bold">tarry, beside the limit or the peer of the same run</text>',
           f'<path d="M{LEFT + scale:.1f} {TOP - 10}V{height - 14}" stroke="#d1495b" stroke-dasharray="4 3"/>']
    for i, (what, row) in enumerate(rows):
        y, end = TOP + LINE * i, LEFT + bars[i] * scale
        label = f'{row["ratio"]:.2f} of {row["limit"]["what"]}, {number(row["median"])} {row["unit"]}'
        out += [f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(what)}</text>',
                f'<rect x="{LEFT}" y="{y + 2}" width="{end - LEFT:.1f}" height="14" fill="#1b6ca8"/>',
                f'<text x="{max(end, LEFT + scale) + 8:.1f}" y="{y + 13}">{escape(label)}</text>']
    return "\n".join([*out, "</svg>"]) + "\n"
