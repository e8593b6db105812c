"""The page and its figures, by their structure."""

from __future__ import annotations

import math
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_up_runs import write_run, write_sweep
from matplotlib.figure import Figure

from fl_app.commands.cli import main as dpforest
from fl_app.report.answer import answer
from fl_app.report.comparison import comparison_table
from fl_app.report.figures.comparison import answer_picture, client_boxes, confusion_matrices, costs
from fl_app.report.figures.style import legend_below, save_figure, styled
from fl_app.report.gather import gather
from fl_app.report.ledgers import disclosures
from fl_app.report.page import REPORT, write_report
from fl_app.report.papers.published import published, published_for, source_of
from fl_app.report.sections import Section
from fl_app.report.svg import inline

METHODS = ("one_shot", "dp_sgd", "dp_fedavg", "fedavg")
NASTY = '<img src=x onerror="alert(1)"> & "it\'s" $\\frac{1}$'


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep with its report; read only."""
    folder = write_sweep(tmp_path_factory.mktemp("sweep"), METHODS, rounds=3, memorization=True)
    failed = folder / "99"
    failed.mkdir()
    (failed / "FAILED.txt").write_text("BudgetExceeded: too much")
    write_report([folder])
    return folder


@pytest.fixture(scope="module")
def section(sweep: Path) -> Section:
    (found,) = gather([sweep]).sections
    return found


class _Checker(HTMLParser):
    """Counts what is opened and closed, and collects ids and addresses."""

    VOID = frozenset({"meta", "input", "br", "link", "img", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        self.ids += [values["id"]] if values.get("id") else []
        self.links += [str(values[name]) for name in ("href", "src") if name in values]
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.stack.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def parse(page: str) -> _Checker:
    checker = _Checker()
    checker.feed(page)
    assert checker.stack == []
    return checker


def test_the_page_is_whole_and_needs_no_network(sweep: Path) -> None:
    checker = parse((sweep / REPORT).read_text(encoding="utf-8"))
    assert len(set(checker.ids)) == len(checker.ids)
    for link in checker.links:
        if link.startswith("#"):
            assert link[1:] in checker.ids
        else:
            assert (sweep / link).is_file(), "files for a paper lie next to the page"
    assert "link" not in checker.tags
    assert checker.tags.count("svg") == len(list((sweep / "figures").rglob("*.svg")))


def test_every_figure_is_there_as_svg_and_png(sweep: Path) -> None:
    names = {path.stem for path in (sweep / "figures").rglob("*.svg")}
    assert names == {path.stem for path in (sweep / "figures").rglob("*.png")}
    beginnings = ("tradeoff", "answer", "epsilon-", "convergence-", "clients", "confusion-1", "confusion-no-privacy",
                  "labels-", "importance-", "importance-map-", "memorization-", "costs", "rounds-",
                  "alone-")  # fmt: skip
    drawn = [start for start in beginnings if any(name.startswith(start) for name in names)]
    # Label shares are drawn from the data of a whole configuration, which made-up runs lack.
    assert set(beginnings) - set(drawn) <= {"labels-", "alone-"}


def test_a_report_made_anew_leaves_no_figure_of_the_one_before_and_no_file_is_lost(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_sweep(runs / "a", METHODS[:2], epsilons=(1.0,), dataset={"classes": 3})
    write_report([runs])
    figures = runs / "figures"
    first = {path.relative_to(figures) for path in figures.rglob("*")}
    assert Path("watch-row-split/answer.svg") in first
    own = [figures / "mine.svg", figures / "watch-row-split" / "notes.txt", figures / "watch-row-split" / "mine.png"]
    for path in own:
        path.write_text("mine", encoding="utf-8")
    write_run(runs / "b", "one_shot", dataset={"name": "hapt"})
    write_run(runs / "c", "one_shot", dataset={"classes": 12})
    page = write_report([runs]).read_text(encoding="utf-8")
    for path in own:
        assert path.read_text(encoding="utf-8") == "mine"
    drawn = {path for path in figures.rglob("*") if path.suffix in (".svg", ".png") and path not in own}
    assert {path.relative_to(runs).as_posix() for path in drawn} == set(re.findall(r'href="(figures/[^"]+)"', page))
    assert len(list((figures / "watch-row-split").iterdir())) == 2
    for path in own:
        path.unlink()
    (figures / "watch-row-split").rmdir()
    shutil.rmtree(runs / "b")
    write_report([runs])
    assert not any("hapt" in path.name for path in figures.iterdir())


def test_a_page_that_names_files_elsewhere_makes_nobody_remove_them(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a")
    (tmp_path / "runs" / "x").mkdir()
    outside = tmp_path / "runs" / "x.svg"
    outside.write_text("mine", encoding="utf-8")
    links = "".join(f'<a href="figures/{name}">' for name in ("../x.svg", "a/../../x.svg", "../x/../x.svg", "./x.svg"))
    (tmp_path / "runs" / REPORT).write_text(links, encoding="utf-8")
    write_report([tmp_path / "runs"])
    assert outside.is_file()


def test_the_page_opens_with_the_answer(sweep: Path) -> None:
    page = (sweep / REPORT).read_text(encoding="utf-8")
    assert page.index("Per record: at epsilon 0.1 to 10, one_shot is best.") < page.index("Score against epsilon")
    for heading in ("Learning, over rounds", "who is served how well", "Confusion between classes", "Memorization rate",
                    "Importance of features", "Bytes and seconds", "What each method reveals", "All runs",
                    "What differs between runs", "fairness gap", "BudgetExceeded: too much"):  # fmt: skip
        assert heading in page


def test_the_answer_picture_has_a_panel_a_unit_and_all_methods_with_a_guarantee(section: Section) -> None:
    with styled():
        ((_, figure),) = answer_picture(answer(section))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["per record", "per client's whole data"]
    for axes in figure.axes:
        assert axes.get_ylabel() == "accuracy"
        assert axes.get_xlabel().startswith("epsilon")
        assert [text.get_text() for text in axes.get_xticklabels()] == ["0.1", "1", "10"]
    labels = set(figure.axes[0].get_legend_handles_labels()[1])
    trust = "nobody but the client is trusted"
    others = {"without privacy: fedavg (nobody but the client is trusted)", "always the most frequent class"}
    assert labels == {f"one_shot (pure; {trust})", f"dp_sgd (delta 1e-06; {trust})", *others}
    assert figure.get_suptitle() == "watch, row split: methods with a guarantee"


def test_where_units_share_axes_each_is_named_and_so_is_what_has_no_guarantee(section: Section, tmp_path: Path) -> None:
    for _, figure in (*client_boxes(section), *costs(section)):
        labels = set(figure.axes[0].get_legend_handles_labels()[1])
        assert {"one_shot (per record)", "dp_fedavg (per client's whole data)", "fedavg"} <= labels
    matrices = dict(confusion_matrices(section))["1"]
    assert "dp_fedavg (per client's whole data)" in {axes.get_title().replace("\n", " ") for axes in matrices.axes}
    assert section.labels["dp_sgd"] == "dp_sgd (per record)"
    write_run(tmp_path / "a", "one_shot")
    write_run(tmp_path / "b", "fext_published", unprotected="leaf values")
    (other,) = gather([tmp_path]).sections
    assert other.labels == {"one_shot": "one_shot", "fext_published": "fext_published (no valid guarantee)"}


def test_boxes_hold_the_means_of_clients(section: Section) -> None:
    ((_, figure),) = client_boxes(section)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0.1", "1", "10", "no privacy"]
    assert len({line.get_label() for line in axes.lines if not line.get_label().startswith("_")}) == 4
    own = section.clients.merge(section.frame[["setting", "epsilon"]], left_on="number", right_index=True)
    own = own[(own["setting"] == "one_shot") & (own["epsilon"] == 0.1)]
    (worst,) = (line for line in axes.lines if line.get_label().startswith("one_shot"))
    assert worst.get_ydata()[0] == pytest.approx(own.groupby("client")["accuracy"].mean().min())


def test_the_mark_is_the_worst_client_also_where_less_is_better(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fext", accuracy=[0.9, 0.7, 0.4], target=True)  # MSE 0.1, 0.3, 0.6
    ((_, figure),) = client_boxes(gather([tmp_path]).sections[0])
    marks = [line.get_ydata()[0] for line in figure.axes[0].lines if len(line.get_xdata()) == 1]
    assert marks == pytest.approx([0.6])


def test_confusion_shows_shares_of_the_true_class_and_names(section: Section) -> None:
    matrices = dict(confusion_matrices(section))
    figure = matrices["1"]
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["rest", "walk", "run"]
    assert axes.images[0].get_array().sum(axis=1).tolist() == pytest.approx([100] * 3)
    # Classes are named once for all matrices of a line.
    assert {text.get_text() for text in figure.axes[1].get_yticklabels()} == {""}
    assert matrices["no privacy"].get_suptitle() == "watch, row split: no privacy"


def test_costs_are_of_bytes_and_seconds(section: Section) -> None:
    ((_, figure),) = costs(section)
    assert ["MB" in figure.axes[0].get_xlabel(), "seconds" in figure.axes[1].get_xlabel()] == [True, True]
    assert "sending the raw rows" in figure.axes[0].get_legend_handles_labels()[1]


def test_marks_without_a_guarantee_are_hollow_and_units_apart(tmp_path: Path) -> None:
    write_sweep(tmp_path / "a", ("one_shot", "dp_fedavg"), (1.0, 10.0), seeds=1)
    write_sweep(tmp_path / "b", ("fext",), (1.0, 10.0), seeds=1, unprotected="leaf values", accounting="published")
    write_report([tmp_path])
    (svg,) = (tmp_path / "figures").rglob("epsilon-*.svg")
    text = svg.read_text(encoding="utf-8")
    assert text.count("unit: one") == 2
    assert "hollow: no guarantee" in text
    assert text.count("fill: #ffffff; stroke: #009e73") > 0, "the published setting of fext is hollow"


def test_published_megabytes_stand_next_to_our_own(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fedavg", noised=False, dataset={"name": "hapt"})
    ((_, figure),) = costs(gather([tmp_path]).sections[0])
    left, right = figure.axes
    # HAR chapter, table 1: FedAvg, 30 MB and 0.9622.
    points = {line.get_label(): (line.get_xdata()[0], line.get_ydata()[0]) for line in left.lines}
    assert points["HAR chapter, table 1, FedAvg"] == (30.0, 0.9622)
    assert not any("HAR chapter" in line.get_label() for line in right.lines), "it says minutes of another machine"


@pytest.mark.parametrize(
    ("dataset", "split", "source", "line"),
    [
        # From the sources themselves: har_chapter, table 1; ldp document, performance evaluation.
        ("hapt", "row", "HAR chapter, table 1", ["DP-FedAvg", "1", "accuracy", "0.9273"]),
        ("exercise", "time", "LDP document, its own data", ["3 clients", "0.1", "accuracy", "0.623"]),
    ],
)
def test_an_epsilon_that_a_source_counts_otherwise_is_marked(
    dataset: str, split: str, source: str, line: list[str]
) -> None:
    (found,) = [values for values in published_for(dataset, split) if values[1:] == line]
    assert found[0].startswith(f"{source} (epsilon a round, no valid guarantee")
    assert source_of(published("liu2022_wisdm")) == "Liu et al. 2022, table 4 (phone, epsilon 1 a tree)"
    assert not published_for(dataset, "subject"), "values stand only next to the split that they were measured with"


def test_nothing_is_cut_off_a_figure_whose_title_is_longer_than_its_axes(tmp_path: Path) -> None:
    figure = Figure(figsize=(2, 2), layout="constrained")
    figure.add_subplot().set_title("a long title " * 10, loc="left")
    svg, _ = save_figure(figure, tmp_path / "long")
    width = re.search(r'<svg [^>]*width="([\d.]+)pt"', svg.read_text(encoding="utf-8"))
    assert width is not None
    assert float(width[1]) > 3 * 2 * 72


def test_a_name_without_an_end_does_not_make_a_figure_without_one(tmp_path: Path) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], label="x" * 3000)
    axes.set_title("one setting = a value " * 150, loc="left")
    legend_below(figure)
    svg, _ = save_figure(figure, tmp_path / "endless")
    text = svg.read_text(encoding="utf-8")
    width, height = (float(size) for size in re.findall(r'(?:width|height)="([\d.]+)pt"', text)[:2])
    assert max(width, height) < 1000
    assert "one setting = a value" in text


def test_figures_across_sections_have_a_line_a_section(sweep: Path, tmp_path: Path) -> None:
    for clients, rows in ((2, 4000), (4, 1000)):
        for epsilon in (1.0, 10.0):
            scores = [0.1 * clients] * clients
            write_run(tmp_path / f"{clients}-{epsilon}", "fext", epsilon, accuracy=scores, target=True,
                      partition={"clients": clients}, public_rows=rows)  # fmt: skip
    page = write_report([tmp_path]).read_text(encoding="utf-8")
    parse(page)
    assert page.index("Across sections</h2>") < page.index("Score against epsilon")
    (svg,) = (tmp_path / "figures" / "joined").glob("*.svg")
    text = svg.read_text(encoding="utf-8")
    assert "fext, 2 x 4000 rows (record; nobody but the client is trusted; pure)" in text
    assert "fext, 4 x 1000 rows" in text
    assert "Across sections" not in (sweep / REPORT).read_text(encoding="utf-8")


def test_the_page_says_what_no_method_hides(sweep: Path) -> None:
    page = (sweep / REPORT).read_text(encoding="utf-8")
    shown = page[page.index("What each method reveals") :]
    for words in ("whether a client takes part", "how long its answers take", "that its table has the columns"):
        assert words in shown
    assert "a run brings the code of its ClientApp" in shown


def test_an_epsilon_is_shown_nowhere_smaller_than_it_is(tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path / f"{seed}", "one_shot", 1.0000004, seed)
    page = write_report([tmp_path]).read_text(encoding="utf-8")
    assert "epsilon 1.00001" in page
    assert not re.search(r"epsilon 1[^.\d]", page)
    assert "1.00001" in comparison_table(gather([tmp_path]).runs)


def test_the_ledger_table_names_what_leaves_a_client(section: Section, tmp_path: Path) -> None:
    first = disclosures(section)[0]
    assert first.state == "holds"
    facts = dict(first.facts)
    assert facts["Does a guarantee hold?"] == "yes"
    assert facts["Who is trusted"] == "nobody but the client is trusted"
    (release,) = first.releases
    assert release.what == "class counts of the leaves"
    assert release.protection == "discrete Laplace, scale 1 for a sensitivity of 1"
    assert (release.cost, release.share) == ("epsilon = 1", "100 %")
    (open_,) = [each for each in disclosures(section) if each.setting == "fedavg"]
    assert [(r.what, r.protection, r.cost) for r in open_.releases] == [("weights", "nothing", "not bounded")]
    assert dict(open_.facts)["What is protected"] == "nothing"
    assert facts["What is protected"].startswith("one client's whole data")
    write_run(tmp_path / "a", "fext_published", unprotected="leaf values")
    (claimed,) = disclosures(gather([tmp_path]).sections[0])
    assert dict(claimed.facts)["What is protected"].startswith("nothing for sure; claimed: one record")


def test_the_terminal_has_the_same_table(section: Section, sweep: Path) -> None:
    page = (sweep / REPORT).read_text(encoding="utf-8")
    table = comparison_table(section.runs)
    ranges = re.findall(r"[\d.]+ \[[\d.]+ to [\d.]+\]", table)
    assert ranges
    assert all(numbers in page for numbers in ranges)


def test_names_with_html_quotes_and_formulas_are_only_text(tmp_path: Path) -> None:
    for seed in range(1):
        write_run(tmp_path / f"a b '{seed}'", "one_shot", seed=seed, classes=(NASTY, "b c"), features=(NASTY, "x y"),
                  dataset={"name": "table", "path": f"/data/{NASTY}"}, candidates=NASTY)  # fmt: skip
    write_run(tmp_path / "other", "one_shot", classes=(NASTY, "b c"), candidates="grid",
              dataset={"name": "table", "path": f"/data/{NASTY}"})  # fmt: skip
    page = write_report([tmp_path]).read_text(encoding="utf-8")
    checker = parse(page)
    assert "img" not in checker.tags
    assert "<img" not in page
    assert "&lt;img" in page
    assert all(" " not in path.name and "<" not in path.name for path in (tmp_path / "figures").rglob("*"))


def test_a_dollar_sign_starts_no_formula(tmp_path: Path) -> None:
    for number, name in enumerate((NASTY, "plain")):
        write_run(tmp_path / str(number), "fext", features=(NASTY, "b"), candidates=name, rounds=2)
    write_report([tmp_path])
    (svg,) = (tmp_path / "figures").rglob("epsilon-*.svg")
    assert r"$\frac{1}$ (record" in svg.read_text(encoding="utf-8")


def test_regression_shows_r2_and_mse(tmp_path: Path) -> None:
    write_sweep(tmp_path, ("fext",), (1.0,), seeds=2, target=True, rounds=2)
    page = write_report([tmp_path]).read_text(encoding="utf-8")
    assert "R^2 0." in page
    (svg,) = (tmp_path / "figures").rglob("epsilon-*.svg")
    text = svg.read_text(encoding="utf-8")
    assert "R^2" in text
    assert "MSE" in text


def test_runs_that_all_failed_make_a_page_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "FAILED.txt").write_text("SimulationFailed: no memory")
    page = write_report([tmp_path]).read_text(encoding="utf-8")
    parse(page)
    assert "No run came to its end" in page
    assert "SimulationFailed: no memory" in page


def test_the_command_writes_from_several_sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write_sweep(tmp_path / "one", ("one_shot",), (1.0,), seeds=1)
    other = write_sweep(tmp_path / "other", ("one_shot_published",), (1.0,), seeds=1,
                        dataset={"name": "hugadb", "path": "/nowhere"})  # fmt: skip
    assert dpforest(["report", str(one), str(other), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "hugadb, row split:" in printed
    assert "watch, row split:" in printed
    assert not (other / REPORT).exists()
    page = (tmp_path / "out" / REPORT).read_text(encoding="utf-8")
    assert "Favero et al. 2024, fig. 2 and 3" in page, "published values stand with their source"
    (svg,) = (tmp_path / "out").rglob("epsilon-hugadb*.svg")
    assert "Favero et al. 2024, fig. 2 and 3, depth 5" in svg.read_text(encoding="utf-8")
    write_run(one / "new", "boost", math.inf, 7)
    page = write_report([one]).read_text(encoding="utf-8")
    assert "2 runs" in page
    shutil.rmtree(one / "figures")
    assert parse(page).tags.count("svg") > 3, "the page does not need its files"
    assert not list(one.glob(".report*"))


def test_the_terminal_prints_a_table_a_section_and_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(2):
        write_run(tmp_path / f"a{seed}", "one_shot", seed=seed)
        write_run(tmp_path / f"b{seed}", "fext", seed=seed, target=True, rounds=2)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "FAILED.txt").write_text("no power")
    assert dpforest(["compare", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("accuracy  ") == 1
    assert printed.out.count("r2  ") == 1
    assert "Per record: at epsilon 1, one_shot is the only method with a guarantee." in printed.out
    assert "failed: no power" in printed.err
    assert dpforest(["compare", str(tmp_path / "c")]) == 1


def test_both_commands_list_what_is_left_out_and_say_where_they_cannot_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "runs" / "a")
    (tmp_path / "runs" / "b").mkdir()
    (tmp_path / "runs" / "b" / "FAILED.txt").write_text("SimulationFailed: no memory")
    (tmp_path / "file").write_text("mine")
    for command, option in (("report", "--out"), ("compare", "--figures")):
        assert dpforest([command, str(tmp_path / "runs"), option, str(tmp_path / "out")]) == 0
        said = f"left out: {tmp_path / 'runs' / 'b'}: failed: SimulationFailed: no memory\n"
        assert capsys.readouterr().err == said
        assert dpforest([command, str(tmp_path / "runs"), option, str(tmp_path / "file")]) == 1
        assert capsys.readouterr().err.startswith(f"{said}error: ")


def test_the_command_refuses_what_is_no_folder_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dpforest(["report", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: no run in")
    assert error.count("\n") == 1


def test_ids_of_two_figures_do_not_meet() -> None:
    svg = '<?xml version="1.0"?>\n<svg height="10pt" width="20pt"><defs><path id="m"/></defs><use href="#m"/></svg>'
    one, two = inline(svg, "a"), inline(svg, "b")
    ids = [re.search(r'path id="([^"]+)"', text)[1] for text in (one, two)]  # type: ignore[index]
    assert ids[0] != ids[1]
    assert f'href="#{ids[0]}"' in one


def test_five_hundred_runs_fit_on_one_page(tmp_path: Path) -> None:
    write_sweep(tmp_path, ("one_shot", "boost"), tuple(map(float, range(1, 11))), seeds=25, clients=2)
    path = write_report([tmp_path])
    page = path.read_text(encoding="utf-8")
    assert "500 of 500 runs" in page
    assert page.count("<tr data-m=") == 500
    assert path.stat().st_size < 8e6
    assert "(25 seeds; pure)" in page
