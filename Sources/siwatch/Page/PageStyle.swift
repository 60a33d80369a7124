// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension HTMLPage {
    /// Light and dark, on paper and on a phone.
    static let style: StaticString = #"""
        :root {
          color-scheme: light dark;
          --paper: #fcfcfa; --ink: #1b1c1a; --muted: #5b5d57; --line: #deded8; --strong-line: #a9aaa3; --focus: #0b57d0;
          --well: #14532b; --well-paper: #e6f2e8; --warning: #6f4400; --warning-paper: #fbf0d6; --wrong: #8f1613; --wrong-paper: #fbe6e3;
          --key: 11rem; --gap: 1.5rem; --mono: ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --paper: #151614; --ink: #e8e8e2; --muted: #a6a89f; --line: #2f312d; --strong-line: #5d6058; --focus: #8ab4f8;
            --well: #9fdcae; --well-paper: #16281b; --warning: #f3c775; --warning-paper: #2e2410; --wrong: #ffb3aa; --wrong-paper: #3a1714;
          }
        }
        *, ::before, ::after { box-sizing: border-box; }
        html { scroll-padding-top: 3rem; -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
        body {
          margin: 0; padding: 0 clamp(1rem, 4vw, 3rem) 4rem; background: var(--paper); color: var(--ink);
          font: 1rem/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums lining-nums; overflow-wrap: break-word;
        }
        body > header, main { max-width: 76rem; margin-inline: auto; }
        h1, h2, h3, p, dl, dd, ul, ol, table { margin: 0; padding: 0; }
        ul, ol { list-style: none; }
        code { font: .875em/1.5 var(--mono); overflow-wrap: anywhere; }
        time { white-space: nowrap; }
        :focus-visible { outline: 2px solid var(--focus); outline-offset: 3px; border-radius: 2px; }

        /* The head of the page */
        body > header { display: flex; flex-wrap: wrap; align-items: baseline; gap: .25rem 2rem; padding-block: 1.25rem .75rem; }
        .name { font-weight: 650; }
        nav { margin-left: auto; }
        nav ul { display: flex; flex-wrap: wrap; gap: 0 1.25rem; }
        nav a { display: block; padding-block: .25rem; color: var(--muted); font-size: .875rem; text-underline-offset: .25em; text-decoration-color: var(--strong-line); }
        nav a:hover { color: var(--ink); text-decoration-color: currentColor; }
        #lost { position: sticky; top: 0; z-index: 1; max-width: 76rem; margin-inline: auto; background: var(--wrong-paper); color: var(--wrong); font-weight: 600; border-radius: 0 0 .5rem .5rem; }
        #lost:not(:empty) { padding: .625rem var(--gap); }

        /* One row of the page: its name at the left, its facts at the right. */
        section { display: grid; grid-template-columns: 12rem minmax(0, 1fr); column-gap: 2rem; padding-block: 2rem; border-top: 1px solid var(--line); }
        section > h2 { font-size: 1.125rem; font-weight: 650; line-height: 1.5rem; text-wrap: balance; }
        section > div > * + * { margin-top: 1.75rem; }
        h3 { font-size: 1rem; font-weight: 650; }
        article { display: grid; grid-template-columns: 29.25rem minmax(0, 1fr); column-gap: 2rem; row-gap: .5rem; --key: 6.5rem; }
        article + article { padding-top: 1.75rem; border-top: 1px solid var(--line); }
        article h3 { grid-column: 1 / -1; }
        article table { align-self: start; }
        article tr { height: 2.5625rem; }
        article .pairs > div { min-height: 2.5625rem; }
        .muted, .ago { color: var(--muted); }
        .ago { font-size: .875rem; white-space: nowrap; }
        td > time { margin-right: .375rem; }

        /* The verdict */
        .verdict { grid-template-columns: calc(12rem - var(--gap)) minmax(0, 1fr); border: 0; border-radius: .75rem; padding: 1.75rem var(--gap); margin-bottom: 2rem; align-items: start; }
        .verdict.well { background: var(--well-paper); --tone: var(--well); }
        .verdict.warning { background: var(--warning-paper); --tone: var(--warning); }
        .verdict.wrong { background: var(--wrong-paper); --tone: var(--wrong); }
        .verdict + section { border-top: 0; padding-top: 0; }
        .verdict > p { display: flex; gap: .75rem; align-items: center; color: var(--tone); font-weight: 650; min-height: 2.625rem; }
        .verdict svg { flex: none; }
        .verdict h1 { color: var(--tone); font-size: clamp(1.5rem, 1.1rem + 1.4vw, 2rem); font-weight: 650; line-height: 1.1875; letter-spacing: -.01em; text-wrap: balance; padding-block: .125rem; }
        .verdict > div { grid-column: 2; max-width: 46rem; }
        .verdict > div > * + * { margin-top: .75rem; }
        .verdict .asof { font-size: .875rem; }

        /* Facts and severity */
        .facts > li { display: grid; grid-template-columns: var(--key) minmax(0, 1fr); column-gap: var(--gap); padding-block: .875rem; border-bottom: 1px solid var(--line); }
        .facts > li:first-child { padding-top: 0; }
        .facts > li:last-child { border-bottom: 0; padding-bottom: 0; }
        .facts > li > div { max-width: 46rem; }
        .facts li p:first-child { font-weight: 600; }
        .facts p + p { margin-top: .25rem; }
        .severity { font-weight: 600; font-size: .8125rem; line-height: 1.25rem; padding: 0 .5rem; border: 1px solid currentColor; border-radius: .25rem; white-space: nowrap; justify-self: start; align-self: start; margin-top: .125rem; }
        .severity.wrong { color: var(--wrong); background: var(--wrong-paper); }
        .severity.warning { color: var(--warning); background: var(--warning-paper); }
        dd > .severity, td > .severity { display: inline-block; margin: 0 .125rem 0 0; }
        .runbook { font-size: .875rem; color: var(--muted); }
        .verdict .runbook, .verdict .asof { color: var(--ink); }

        /* Pairs of a name and a value */
        .pairs > div { display: grid; grid-template-columns: var(--key) minmax(0, 1fr); column-gap: var(--gap); padding-block: .5rem; border-bottom: 1px solid var(--line); }
        .pairs dt { color: var(--muted); }
        .pairs dd { max-width: 48rem; }

        /* Tables */
        table { width: 100%; border-collapse: collapse; table-layout: fixed; text-align: left; }
        caption { text-align: left; color: var(--muted); font-size: .875rem; line-height: 1.5rem; padding-bottom: .25rem; }
        article caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
        th, td { padding: .5rem 0 .5rem var(--gap); vertical-align: baseline; font-weight: 400; border-bottom: 1px solid var(--line); }
        th:first-child, td:first-child { padding-left: 0; }
        thead th { color: var(--muted); font-size: .875rem; border-bottom-color: var(--strong-line); }
        thead th:first-child { width: var(--key); }
        tbody th { color: var(--muted); }
        tbody:last-child > tr:last-child > *, .pairs > div:last-child { border-bottom: 0; }
        section > div > :last-child > :last-child > tr:last-child > *, section > div > .pairs:last-child > div:last-child { padding-bottom: 0; }
        section > div > .pairs:first-child > div:first-child { padding-top: 0; }
        tbody th[scope="rowgroup"] { color: var(--ink); font-weight: 650; padding-top: 1.25rem; border-bottom: 0; padding-bottom: .125rem; }
        tbody:first-of-type th[scope="rowgroup"] { padding-top: .75rem; }
        .number { width: 8rem; text-align: right; }
        .answer { width: 9.25rem; }
        .course { display: inline-block; max-width: 100%; vertical-align: -.375rem; margin-right: var(--gap); color: var(--muted); }
        .replicas thead th { width: 5.5rem; }
        .replicas thead th.host { width: 14rem; }
        .replicas thead th.seen { width: 14rem; }
        .replicas thead th.lanes { width: auto; }
        .replicas thead th.clock { width: 8.75rem; }
        .replicas tbody th { color: var(--ink); }
        .warnings thead th:first-child { width: 7.5rem; }
        .level { width: 6.5rem; }
        .event { width: 14.5rem; }
        .warnings td.level { font-weight: 600; }
        .level.warning { color: var(--warning); }
        .level.error, .level.critical { color: var(--wrong); }
        .fields { display: block; margin-top: .125rem; color: var(--muted); font-size: .8125rem; }

        /* A word of machines breaks after a separator, on narrow screens only. */
        @media (min-width: 48.0625rem) { wbr { display: none; } }
        @media (max-width: 72rem) {
          section { grid-template-columns: minmax(0, 1fr); row-gap: 1rem; }
          .verdict { grid-template-columns: minmax(0, 1fr); row-gap: .25rem; padding-block: 1.25rem; }
          .verdict > div { grid-column: auto; }
          .verdict > p { min-height: 1.5rem; }
          .verdict.well { grid-template-columns: auto minmax(0, 1fr); column-gap: .75rem; }
          .verdict.well > p { min-height: calc(1.1875 * clamp(1.5rem, 1.1rem + 1.4vw, 2rem) + .25rem); }
          nav { margin-left: 0; }
        }
        @media (max-width: 60rem) {
          article { grid-template-columns: minmax(0, 1fr); row-gap: .75rem; --key: 11rem; }
          .replicas thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
          .replicas, .replicas caption, .replicas tbody, .replicas tr, .replicas th, .replicas td { display: block; width: auto; border: 0; }
          .replicas tr { padding-block: .75rem; border-bottom: 1px solid var(--line); }
          .replicas tr:last-child { border-bottom: 0; padding-bottom: 0; }
          .replicas th { padding: 0 0 .25rem; font-weight: 650; }
          .replicas td { position: relative; padding: .125rem 0 .125rem calc(var(--key) + var(--gap)); }
          .replicas td::before { content: attr(data-label); position: absolute; left: 0; color: var(--muted); }
        }
        @media (max-width: 48rem) {
          .warnings thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
          .warnings, .warnings caption, .warnings tbody { display: block; }
          .warnings tr { display: grid; grid-template-columns: auto auto minmax(0, 1fr); column-gap: 1rem; padding-block: .75rem; border-bottom: 1px solid var(--line); }
          .warnings tr:last-child { border-bottom: 0; padding-bottom: 0; }
          .warnings th, .warnings td { display: block; width: auto; padding: 0; border: 0; }
          .warnings td:last-child { grid-column: 1 / -1; }
        }
        @media (max-width: 36rem) {
          :root { --gap: .75rem; --key: 6.75rem; }
          article { --key: 5.75rem; }
          td code { font-size: .8125rem; }
          .verdict { padding-inline: 1rem; }
          .number { width: 5.5rem; }
          .answer { width: 7.75rem; }
          time, .ago { white-space: normal; }
          .facts > li { grid-template-columns: minmax(0, 1fr); row-gap: .5rem; }
          td > .ago, .course { display: block; margin: 0; }
        }
        @media print {
          html { font-size: 10pt; }
          body { padding: 0; }
          nav, #lost { display: none; }
          section { padding-block: 1rem; }
          tr, li, .pairs > div { break-inside: avoid; }
          h2, h3, caption { break-after: avoid; }
          .verdict { border: 1px solid currentColor; }
        }
        """#
}
