# SPDX-License-Identifier: Apache-2.0
"""Prints and draws the results of peers.sh.

A result is {"text", "problem", "operations", "others", "ratio", "peers"}; peers are the descriptions of workers, each with its "share" of
the roof.
"""
import collections

OURS = "cellgrad"


def find_peer(result, name):
    """Returns the description of a worker; {} if the run has no worker of this name."""
    return next((peer for peer in result["peers"] if peer["peer"] == name), {})


def list_present(results, names):
    """Returns `names` without the libraries that are reported as not installed in every problem; this library always stays."""
    absent = [all("not installed" in (find_peer(result, name).get("lost") or "") for result in results) for name in names]
    return [name for name, is_absent in zip(names, absent) if name == OURS or not is_absent]


# ---- tables ----

def print_row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def print_head(cells):
    print()
    print_row(cells)
    print("|---" * len(cells) + "|")


def print_roofs(roofs):
    for when, roof in zip(("before", "after"), roofs):
        if roof:
            print(f"roofs {when}: {roof['f32_gflops']:.1f} GFLOP/s in f32, {roof['f64_gflops']:.1f} in f64, {roof['bf16_gflops']:.1f} in bf16, {roof['threads']} threads; {roof['device']}")


def print_versions(results, names):
    print()
    for name in names:
        peers = [find_peer(result, name) for result in results]
        first = next((peer for peer in peers if peer.get("about")), None)
        if first:
            settings = ", ".join(f"{key} {value}" for key, value in first["about"].get("settings", {}).items() if key != "memory")
            print(f"- {name} {first['about']['version']}: {settings}; `{' '.join(first['command'])}`")
        else:
            print(f"- {name}: {peers[0].get('lost', 'not started') if peers else 'not started'}")


class Notes(collections.UserList):
    """The reasons below a table, each with a number by which the table refers to it."""

    def add(self, text):
        if text not in self:
            self.append(text)
        return f"[{self.index(text) + 1}]"


def describe_time(peer, notes):
    """Returns the text of one cell in the table of times: a worker's time, or the number of the note that says why it has none."""
    if not peer:
        return ""
    if not peer["ms"]:
        return notes.add(f"{peer['peer']}: {peer['lost']}")
    share = f" ({100 * peer['share']:.0f} %)" if peer["share"] else ""
    return f"{peer['ms']:.4g}" + share + (" " + notes.add(f"{peer['peer']} goes on spinning between its turns") if peer["spins"] else "")


def print_times(results, names):
    notes = Notes()
    print_head(["problem", "dtype", "T,B,I,H", "10^9 operations"] + [f"{name} ms" for name in names] + ["ours / fastest peer", "largest difference"])
    for result in results:
        problem, ratio = result["problem"], result["ratio"]
        different = [peer["difference"] for peer in result["peers"] if peer["difference"] is not None]
        print_row([problem.cell + ("" if problem.grad else ", forward") + (", last" if problem.last else ""), problem.dtype,
                   f"{problem.T},{problem.B},{problem.I},{problem.H}", f"{result['operations'] / 1e9:.3g}"]
                  + [describe_time(find_peer(result, name), notes) for name in names]
                  + [f"{ratio:.3f}" if ratio else "", f"{max(different):.2g}" if different else ""])
    print("\nMilliseconds of the fastest call, with the share of the roof that its products reach; f16 against the roof of f32.")
    for k, text in enumerate(notes):
        print(f"[{k + 1}] {text}")


def print_memory(results):
    """Prints the memory that a call of cellgrad takes beside its arguments, divided by oneDNN's; no other library reports its memory."""
    rows = [(result["text"], *((find_peer(result, name).get("about") or {}).get("settings", {}).get("memory") for name in (OURS, "onednn"))) for result in results]
    shown = [f"{text} {ours / theirs:.2f}" for text, ours, theirs in rows if ours and theirs]
    if shown:
        print(f"\nMemory beside the arguments, reserve and workspace of ours over workspace and scratchpad of oneDNN: {'; '.join(shown)}.")


def print_others(results):
    known = [result["others"] for result in results if result["others"] is not None]
    if known:
        print(f"\nOther processes took at most {100 * max(known):.1f} % of the processor time of a problem.")


def print_busy(results, names):
    print("\nWith one processor kept busy by another process: the mean of each library's calls over its fastest without.")
    print_head(["problem"] + names)
    for result in results:
        peers = [find_peer(result, name) for name in names]
        print_row([result["text"]] + [f"{peer['busy_ms'] / peer['ms']:.2f}" if peer.get("busy_ms") else "" for peer in peers])


# ---- the picture ----

COLOURS = ("#1b6ca8", "#e4572e", "#f2a541", "#4c9f70", "#8a5fbf", "#7a7a7a", "#c2185b", "#00838f")
# BAR: the height of a bar; GAP: the space between groups; LEFT: where bars begin; WIDTH: the length of the longest bar; MOST: the ratio of
# times that the longest bar shows.
BAR, GAP, LEFT, WIDTH, MOST = 14, 14, 230, 560, 6.0


def draw_group(result, names, top):
    """Draws the bars of a problem; returns them, and the position below them.  A bar that is too long for the picture is cut; each bar has
    its ratio and its milliseconds beside it."""
    lines, y = [f'<text x="{LEFT - 8}" y="{top + 11}" text-anchor="end">{result["text"].replace(":", " ")}</text>'], top
    ours = find_peer(result, OURS).get("ms")
    for k, name in enumerate(names):
        ms = find_peer(result, name).get("ms")
        if not ms or not ours:
            continue
        width = min(ms / ours, MOST) / MOST * WIDTH
        lines.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 2}" fill="{COLOURS[k % len(COLOURS)]}"/>')
        lines.append(f'<text x="{LEFT + width + 4:.1f}" y="{y + 10}" class="small">{ms / ours:.2f}  ({ms:.3g} ms)</text>')
        y += BAR
    return lines, max(y, top + BAR)


def draw_head(names, height):
    """Draws the legend and the scale."""
    lines, x = [f'<text x="{LEFT}" y="18" font-size="14">time over that of {OURS}; shorter is faster</text>'], LEFT
    for k, name in enumerate(names):
        lines.append(f'<rect x="{x}" y="30" width="10" height="10" fill="{COLOURS[k % len(COLOURS)]}"/><text x="{x + 14}" y="39">{name}</text>')
        x += 30 + 8 * len(name)
    for k in range(int(MOST) + 1):
        at = LEFT + k / MOST * WIDTH
        lines.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="56" y2="{height}" stroke="{"#333" if k == 1 else "#ddd"}"/>')
        lines.append(f'<text x="{at:.1f}" y="54" class="small" text-anchor="middle">{k}</text>')
    return lines


def draw_picture(results, names, path):
    """Draws a bar for each library's time divided by this library's, in a group for each problem."""
    body, y = [], 64
    for result in results:
        lines, y = draw_group(result, names, y)
        body += lines
        y += GAP
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 150}" height="{y + 10}" font-family="sans-serif" font-size="12">',
            "<style>.small { font-size: 10px; fill: #444 }</style>", '<rect width="100%" height="100%" fill="white"/>']
    with open(path, "w") as file:
        file.write("\n".join(head + draw_head(names, y) + body + ["</svg>"]) + "\n")
