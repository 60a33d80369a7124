// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension HTMLPage {
    /// Light and dark, on paper and on a phone.
    static let style: StaticString = #"""
        :root {
          color-scheme: light dark;
          --paper: #fcfcfa; --ink: #1b1c1a; --muted: #5b5d57; --line: #deded8;
          --well: #14532b; --well-paper: #e6f2e8; --warning: #6f4400; --warning-paper: #fbf0d6; --wrong: #8f1613; --wrong-paper: #fbe6e3;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --paper: #151614; --ink: #e8e8e2; --muted: #a6a89f; --line: #2f312d;
            --well: #9fdcae; --well-paper: #16281b; --warning: #f3c775; --warning-paper: #2e2410; --wrong: #ffb3aa; --wrong-paper: #3a1714;
          }
        }
        *, ::before, ::after { box-sizing: border-box; }
        html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
        body {
          margin: 0; padding: 1.5rem clamp(1rem, 4vw, 3rem) 4rem; background: var(--paper); color: var(--ink);
          font: 1rem/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums lining-nums; overflow-wrap: anywhere;
        }
        main, #lost { max-width: 76rem; margin-inline: auto; }
        h1, h2, p, dl, dd { margin: 0; }
        #lost { position: sticky; top: 0; background: var(--wrong-paper); color: var(--wrong); font-weight: 600; }
        #lost:not(:empty) { padding: .625rem 1.5rem; }

        .verdict { display: grid; gap: .75rem; border-radius: .75rem; padding: 1.75rem 1.5rem; margin-bottom: 2rem; color: var(--tone); }
        .verdict.healthy { background: var(--well-paper); --tone: var(--well); }
        .verdict.degraded { background: var(--warning-paper); --tone: var(--warning); }
        .verdict.down { background: var(--wrong-paper); --tone: var(--wrong); }
        .verdict > p:first-child { font-weight: 650; }
        .verdict > p:not(:first-child) { color: var(--ink); max-width: 46rem; }
        .verdict h1 { font-size: clamp(1.5rem, 1.1rem + 1.4vw, 2rem); font-weight: 650; line-height: 1.1875; text-wrap: balance; }

        /* A row of the page: its title at the left, names and values at the right. */
        section:not(.verdict) {
          display: grid; grid-template-columns: 12rem minmax(0, 1fr); gap: 1rem 2rem; padding-block: 2rem; border-top: 1px solid var(--line);
        }
        h2 { font-size: 1.125rem; font-weight: 650; line-height: 1.5rem; }
        h2::first-letter { text-transform: uppercase; }
        dl > div { display: grid; grid-template-columns: 14rem minmax(0, 1fr); column-gap: 1.5rem; padding-block: .5rem; }
        dl > div + div { border-top: 1px solid var(--line); }
        dt { color: var(--muted); }
        dd { max-width: 48rem; }

        @media (max-width: 72rem) { section:not(.verdict) { grid-template-columns: minmax(0, 1fr); } }
        @media (max-width: 36rem) { dl > div { grid-template-columns: minmax(0, 1fr); } }
        @media print {
          html { font-size: 10pt; }
          body { padding: 0; }
          #lost { display: none; }
          dl > div { break-inside: avoid; }
          h2 { break-after: avoid; }
          .verdict { border: 1px solid currentColor; }
        }
        """#
}
