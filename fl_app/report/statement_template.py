"""Jinja template of ``statement.html``. In Python, since `flwr run` bundles no other kind of template with an app."""

# ruff: noqa: E501, RUF001

TEMPLATE = r"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Privacy statement: {{ name }}</title>
<style>
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1a1c1f; --soft: #5b626b; --line: #d9dde2; --tint: #f4f6f8; --accent: #0062a0; --good: #00704f; --bad: #b03a00; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #15181c; --ink: #e8eaed; --soft: #a3abb5; --line: #343a42; --tint: #1d2127; --accent: #6db9f0; --good: #4ecb9e; --bad: #ff9a66; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
main { max-width: 52rem; margin: 0 auto; padding: 0 1.25rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 2rem 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.25rem 0 .5rem; padding-top: .6rem; border-top: 2px solid var(--ink); }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { margin: .5rem 0; }
ul { margin: .5rem 0; padding-left: 1.2rem; }
li { margin: .25rem 0; }
a { color: var(--accent); }
code { font-size: .9em; }
.soft { color: var(--soft); font-size: .875rem; }
.verdict { border: 1px solid var(--line); border-left: .4rem solid var(--bad); background: var(--tint); padding: .75rem 1rem; margin: 1rem 0; }
.verdict.holds { border-left-color: var(--good); }
.verdict > p:first-child > strong { font-size: 1.1rem; }
.no { color: var(--bad); font-weight: 600; }
.wide { overflow-x: auto; max-width: 100%; }
.wide:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; margin: .5rem 0 1rem; width: 100%; overflow-wrap: normal; }
caption { text-align: left; color: var(--soft); padding-bottom: .25rem; }
th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: break-word; }
thead th { border-bottom: 1.5px solid var(--ink); vertical-align: bottom; }
td.n, th.n { text-align: right; white-space: nowrap; }
td.text { min-width: 9rem; }
table.facts th { width: 11rem; font-weight: 600; overflow-wrap: anywhere; }
table.facts td { overflow-wrap: anywhere; }
figure { margin: 1rem 0; }
svg { width: 100%; max-width: 32rem; height: auto; display: block; }
svg text { fill: currentColor; font-size: 12px; }
svg .words { font-weight: 600; }
svg .grid { stroke: var(--line); }
svg .curve { fill: none; stroke: var(--accent); stroke-width: 2; }
svg .mark { fill: var(--accent); }
figcaption { color: var(--soft); font-size: .875rem; }
@media screen and (max-width: 40rem) {
  body { font-size: 15px; }
  main { padding: 0 .9rem 2rem; }
  table.facts th, table.facts td { display: block; width: auto; padding: 0 0 .3rem; }
  table.facts th { border: 0; padding-top: .3rem; color: var(--soft); }
}
@page { size: A4; margin: 16mm; }
@media print {
  :root { color-scheme: light; --paper: #ffffff; --ink: #000000; --soft: #444444; --line: #bbbbbb; --tint: #f4f4f4; --accent: #004a7a; --good: #00543b; --bad: #8a2d00; }
  body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  h1 { margin-top: 0; }
  h2 { margin-top: 1.25rem; }
  h2, h3, caption { break-after: avoid; }
  tr, figure, .verdict, li { break-inside: avoid; }
  .wide { overflow: visible; }
  td.text { min-width: 0; overflow-wrap: anywhere; }
  table, .soft, figcaption { font-size: 8pt; }
  a { color: inherit; text-decoration: none; }
  svg { max-width: 11cm; }
}
</style>
</head>
<body>
<main>
<h1>Privacy statement</h1>
<p class="soft">Run {{ name }}: method {{ run.method }} on {{ run.dataset }}. For a data protection officer. Made {{ made }} by dpforest {{ made_by }}.</p>

{% if holds %}
<div class="verdict{% if one.is_useful %} holds{% endif %}">
{% if nothing_left %}
<p><strong>Nothing that depends on a client’s records left any client in this run.</strong></p>
{% else %}
<p><strong>This run gives a guarantee: epsilon at most {{ run.guarantee.epsilon | rounded_up(4) }}{% if run.guarantee.delta %}, delta {{ run.guarantee.delta | rounded_up }}{% else %} (pure, delta 0){% endif %}, for one {{ run.guarantee.unit.name }}.</strong></p>
<p>{% if one.is_useful %}Who tries to find out from this run whether a certain {{ run.guarantee.unit.name }} was there, and would be right half the time by guessing, is right at most {{ one.certainty | percent }} of the time.{% else %}<span class="no">So large an epsilon protects nothing useful:</span> who would be right half the time by guessing whether a certain {{ run.guarantee.unit.name }} was there may be right {{ one.certainty | percent }} of the time.{% endif %}</p>
{% endif %}
{% if is_simulated %}<p><span class="no">It is a simulation.</span> Its noise comes from a seed in its configuration, and who knows the seed can take the noise off. The guarantee is that of the same run on real nodes; <strong>this model must not be published as private.</strong></p>{% endif %}
</div>
{% else %}
<div class="verdict">
<p><strong>This run guarantees nothing.</strong> {% if is_open %}Nothing that left the clients was noised.{% else %}Noise was added, but it does not protect what was sent.{% endif %} Treat all that left the clients, and the model, as the clients’ data.</p>
{% if run.guarantee.reasons %}<p>Because:</p>
<ul>{% for reason in run.guarantee.reasons %}<li>{{ reason }}</li>{% endfor %}</ul>{% endif %}
</div>
{% endif %}

<h2>1. What is guaranteed</h2>
<table class="facts"><tbody>
<tr><th scope="row">Guarantee</th><td>{{ run.privacy.guarantee }}</td></tr>
<tr><th scope="row">Epsilon</th><td>{% if holds %}{{ run.guarantee.epsilon | rounded_up }}, the total of a client over the whole run, of its worst-protected client; rounded up{% else %}none{% endif %}</td></tr>
<tr><th scope="row">Delta</th><td>{% if not holds %}none{% elif run.guarantee.delta %}{{ run.guarantee.delta | rounded_up }}: with at most this probability the bound by epsilon may not hold{% else %}0: the bound by epsilon always holds (pure differential privacy){% endif %}</td></tr>
<tr><th scope="row">Budget of a client</th><td>{% if run.state == "no privacy" %}none{% else %}epsilon {{ run.budget.epsilon | rounded_up }}, delta {{ run.budget.delta | rounded_up }}{% endif %}</td></tr>
<tr><th scope="row">Clients with a ledger</th><td>{{ run.privacy.clients | length }}</td></tr>
<tr><th scope="row">Noise</th><td>{{ run.privacy.noise or "not recorded" }}</td></tr>
</tbody></table>
{% if holds and not nothing_left %}
<p>In words: whatever anybody concludes from all that a client sent in the whole run would have been concluded with almost the same probability (within a factor exp(epsilon) = {{ factor }}{% if run.guarantee.delta %}, but for a probability delta{% endif %}) had the {{ run.guarantee.unit.name }} not been there.</p>
{% endif %}
{% if curve %}
<figure>{{ curve }}<figcaption>Epsilon and delta are one choice: the same releases hold every pair on this curve at once. A smaller delta takes a larger epsilon.</figcaption></figure>
<div class="wide" tabindex="0"><table><thead><tr><th scope="col">delta</th>{% for delta, _ in points %}<th scope="col" class="n">{{ delta | rounded_up(3) }}</th>{% endfor %}</tr></thead>
<tbody><tr><th scope="row">epsilon</th>{% for _, epsilon in points %}<td class="n">{{ epsilon | rounded_up(3) }}</td>{% endfor %}</tr></tbody></table></div>
{% elif holds and not run.guarantee.delta and not nothing_left %}
<p>A pure guarantee has no curve of epsilon over delta: the same epsilon holds at every delta, also at 0.</p>
{% endif %}

<h2>2. Whom and what it protects: unit and neighbours</h2>
<table class="facts"><tbody>
<tr><th scope="row">Unit</th><td>{% if not holds %}Nothing is protected. What the method means to protect: {% endif %}{{ run.guarantee.unit }}</td></tr>
<tr><th scope="row">Neighbours</th><td>{{ run.guarantee.unit.neighbours }}: two data sets that differ by one {{ run.guarantee.unit.name }} there or not. One exchanged for another counts as two.</td></tr>
<tr><th scope="row">A record is</th><td>{{ run.privacy.record }}</td></tr>
{% if run.privacy.note %}<tr><th scope="row">Mind</th><td>{{ run.privacy.note }}</td></tr>{% endif %}
</tbody></table>
{% if lines and not nothing_left %}
<div class="wide" tabindex="0"><table>
<thead><tr><th scope="col">What is to stay hidden</th><th scope="col">From even odds, an attacker is right at most</th><th scope="col" class="n">Epsilon</th><th scope="col" class="n">Delta</th><th scope="col">By</th></tr></thead>
<tbody>
{% for line in lines %}
<tr><td class="text">{{ line.what }}</td>{% if line.group is none %}<td colspan="4">{{ line.unknown }}</td>{% else %}<td class="text">{% if line.group.is_useful %}{{ line.group.certainty | percent }} of the time{% else %}<span class="no">nothing useful</span> ({{ line.group.certainty | percent }}){% endif %}</td><td class="n">{% if line.group.epsilon > 1000 %}over 1,000{% else %}{{ line.group.epsilon | rounded_up(4) }}{% endif %}</td><td class="n">{{ line.group.delta | rounded_up(3) }}</td><td>{{ line.group.formula }}</td>{% endif %}</tr>
{% endfor %}
</tbody></table></div>
<p class="soft">Group privacy, with k the number of {{ "clients’ data" if is_client_unit else "records" }} that are added or removed. “Nothing useful”: the bound lets an attacker be right more than 99 per cent of the time; real attacks may get less, but no proof keeps them from more. Where one person’s records are at several clients, the epsilons of these clients add up for that person.</p>
{% endif %}

<h2>3. Who is trusted: threat model</h2>
<table class="facts"><tbody>
<tr><th scope="row">Trust model</th><td>{{ run.guarantee.trust }}</td></tr>
<tr><th scope="row">An attacker may</th><td>{% if holds %}{{ seen }}, know every other record, and have any other source of knowledge, now or later{% else %}read what was sent{% endif %}</td></tr>
<tr><th scope="row">Assumed</th><td>the clients run dpforest’s own code (on a plain SuperNode, who may start runs brings the code that clients execute; <code>dpforest node</code> never runs it), and the operating system’s randomness is good</td></tr>
</tbody></table>

<h2>4. What left each client</h2>
<p class="soft">From the ledger that every client keeps: a release is written down before the data is touched, and refused if it exceeds the budget. The sensitivity is how far one {{ run.guarantee.unit.name }} can move what is noised, in the units in which noise of that scale is drawn.</p>
{% for each in clients %}
<h3>{{ "Clients" if each.number > 1 else "Client" }} {{ each.names }}{% if each.number > 1 %}, the same for each{% endif %}</h3>
{% if each.releases %}
<div class="wide" tabindex="0"><table>
<thead><tr><th scope="col">What left</th><th scope="col">Protected by</th><th scope="col" class="n">Times</th><th scope="col">Cost of each</th><th scope="col">Remark</th></tr></thead>
<tbody>
{% for release in each.releases %}
<tr><td class="text">{{ release.what }}</td><td class="text">{% if release.protected %}{{ release.protection }}{% else %}<span class="no">{{ release.protection }}</span>{% endif %}</td><td class="n">{{ release.times }}</td><td class="text">{{ release.cost }}</td><td class="text">{{ release.note }}</td></tr>
{% endfor %}
</tbody></table></div>
{% if each.more > 0 %}<p class="soft">And {{ each.more }} lines more, in privacy.json.</p>{% endif %}
{% else %}
<p>Nothing that depends on its records.</p>
{% endif %}
{% endfor %}
{% if more_ledgers %}<p class="soft">{{ more_ledgers }} other ledgers, none of which costs more, are in privacy.json.</p>{% endif %}
<p class="soft">Mu is the cost of a Gaussian release; the squares of all mu add up. To count the ledgers again by independent means: <code>dpforest ledger</code> with the folder of this run.</p>

<h2>5. What is not covered</h2>
<ul>
{% if run.privacy.evaluation %}<li>Evaluation: {{ run.privacy.evaluation }}.</li>{% endif %}
<li>Whether a client takes part and when, how long its answers take and how many bytes they have, that its table has the columns of the schema, and what its owner allows.</li>
<li>The schema (columns, bounds, classes, categories) and the number of records that it states: they are taken to be public and must not be read off the data.</li>
<li>What was done before training: choosing data, settings or features by looking at the records.</li>
<li>Other runs on the same records: their epsilons add up to this one’s. A node adds them up where its owner sets a budget file.</li>
<li>What is true of people in general: the model may tell something about somebody whether or not that person’s records were in it.</li>
{% if holds and not is_client_unit %}<li>Records that depend on each other, as those of one person do, beyond what the table of section 2 says.</li>{% endif %}
</ul>

<h2>6. Evidence: audit and attacks</h2>
{% if audit %}
<p><strong>Audit</strong> of this method and budget ({{ audit.created }}, dpforest {{ audit.dpforest }}): {% if audit.claims %}claimed epsilon {{ audit.result.claim.epsilon | rounded_up }}{% if audit.result.claim.delta %} at delta {{ audit.result.claim.delta | rounded_up }}{% endif %}; measured, with {{ '%g' | format(100 * audit.result.confidence) }} per cent confidence, at least {{ "%.3f" | format(audit.result.found.epsilon) }} ({{ audit.result.found.by }}; {{ "{:,}".format(audit.result.found.repetitions) }} repetition{{ "s" if audit.result.found.repetitions != 1 }}). {% if audit.violated %}<span class="no">The claim is refuted{% if audit.culprits %} by: {{ audit.culprits | join("; ") }}{% endif %}.</span>{% else %}The claim is not refuted, which is no proof.{% endif %}{% if audit.result.half_noise %} With half the noise it measured {{ "%.3f" | format(audit.result.half_noise.epsilon) }}: {% if audit.has_power %}it would have seen such a fault.{% else %}<span class="no">too weak an audit to say anything.</span>{% endif %}{% endif %}{% else %}nothing is claimed, so that there is nothing to hold.{% endif %}</p>
{% else %}
<p><strong>Audit:</strong> none was run. <code>dpforest audit</code> with the options of this run measures a lower bound of epsilon.</p>
{% endif %}
{% if attack %}
<p><strong>Attacks</strong> on this run’s model, {{ "{:,}".format(attack.records | int) }} records tried{% if attack.models %}, {{ attack.models | int }} shadow models{% endif %}. Membership: how often an attacker ranks a record that was in the training rows above one that was not (0.5 is guessing, 1 is certainty), in brackets the interval of 95 per cent.</p>
{% if attack_lines %}
<div class="wide" tabindex="0"><table>
<thead><tr><th scope="col">The attacker knows</th><th scope="col">Attack</th><th scope="col">Measured on</th><th scope="col" class="n">Ranks right</th><th scope="col" class="n">Decides right</th></tr></thead>
<tbody>
{% for line in attack_lines %}
<tr><td>{{ line.level }}</td><td class="text">{{ line.attack }}</td><td>{{ line.whose }}</td>{% for three in (line.area, line.balanced_accuracy) %}<td class="n">{{ "%.3f [%.3f, %.3f]" | format(*three) }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
{% endif %}
<ul>{% for sentence in attack.words %}<li>{{ sentence }}</li>{% endfor %}</ul>
{% else %}
<p><strong>Attacks:</strong> none were run. <code>dpforest attack</code> with the folder of this run measures what an attacker gets.</p>
{% endif %}
{% for remark in remarks %}<p class="soft">{{ remark }}.</p>
{% endfor %}
{% if not (audit and attack) %}<p class="soft">After either, <code>dpforest statement</code> with the folder of this run writes this page again.</p>{% endif %}

<h2>7. Software</h2>
<table class="facts"><tbody>
<tr><th scope="row">The run</th><td>dpforest {{ run.privacy.dpforest or "of a version that did not record its number" }}, method {{ run.method }}, {{ run.metrics.rounds | int }} round{{ "s" if run.metrics.rounds != 1 }}</td></tr>
<tr><th scope="row">This page</th><td>dpforest {{ made_by }}{% for library, number in versions %}, {{ library }} {{ number }}{% endfor %}</td></tr>
<tr><th scope="row">Mechanisms</th><td>In dpforest’s own methods, a proof stands with each mechanism in the source, with a statistical test that fails when the noise is halved. Methods of other packages bring their own.</td></tr>
</tbody></table>

<h2>8. For the organisation to answer</h2>
<p>NIST’s pyramid rests on what no software can state. Please add, for each client:</p>
<ul>
<li>Data collection exposure: who collected the records, on what legal basis, and who could see them before and during training.</li>
<li>Security and access control: who has access to the nodes, to the server and to its logs; who may start runs on them.</li>
<li>Retention: how long raw records, ledgers and models are kept.</li>
<li>Whether other releases, of whatever kind, were made of the same records.</li>
<li>Who decided on epsilon and delta, and why they suit the harm that a disclosure would do.</li>
</ul>

<h2>Where the points of NIST SP 800-226 are answered</h2>
<div class="wide" tabindex="0"><table>
<thead><tr><th scope="col">Point to evaluate</th><th scope="col">Section</th></tr></thead>
<tbody>
<tr><td>Privacy parameters epsilon and delta, and the variant of differential privacy</td><td>1</td></tr>
<tr><td>Unit of privacy; bounded or unbounded neighbours; groups</td><td>2</td></tr>
<tr><td>Trust and threat model (local, central, secure aggregation)</td><td>3</td></tr>
<tr><td>Algorithms and mechanisms, sensitivity, composition</td><td>4</td></tr>
<tr><td>Query model and side channels: what is released outside the mechanisms</td><td>4, 5</td></tr>
<tr><td>Correctness of the implementation, testing</td><td>6, 7</td></tr>
<tr><td>Security, access control, data collection exposure</td><td>8</td></tr>
<tr><td>Utility and bias: scores, also of the worst-served client</td><td>not here: metrics.json and clients.csv of the run, <code>dpforest report</code></td></tr>
</tbody></table></div>
<p class="soft">Near, J. P., Darais, D., Lefkovitz, N., Howarth, G. S. (2025). Guidelines for Evaluating Differential Privacy Guarantees. NIST Special Publication 800-226. https://doi.org/10.6028/NIST.SP.800-226. This statement follows its points; NIST has not reviewed it.</p>
<p class="soft">Everything on this page is inside this file. It explains what was proven and measured; it is no legal advice.</p>
</main>
</body>
</html>
"""
