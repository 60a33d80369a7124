// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension HTMLPage {
    /// Asks for the page again and again, and puts its new content in the place of the old.
    static let script: StaticString = #"""
        "use strict";
        (() => {
          const period = 5000, patience = 10000, heldMost = 12;
          const lost = document.getElementById("lost");
          const style = document.querySelector("style").textContent;
          const script = document.currentScript.textContent;
          let timer = 0, asking = false, held = 0;

          // What a reader is copying stays for a minute at most.
          const isCopying = (main) => {
            const selection = getSelection();
            return !selection.isCollapsed && main.contains(selection.anchorNode);
          };

          const swap = (next) => {
            const [x, y] = [scrollX, scrollY];
            document.querySelector("main").replaceWith(document.adoptNode(next.querySelector("main")));
            scrollTo({ left: x, top: y, behavior: "instant" });
            if (document.title !== next.title) document.title = next.title;
          };

          const say = (text) => { if (lost.textContent !== text) lost.textContent = text; };

          const ask = async () => {
            if (asking || document.hidden) return;
            asking = true;
            try {
              const options = { headers: { accept: "text/html" }, cache: "no-store", redirect: "error", signal: AbortSignal.timeout(patience) };
              const response = await fetch(location.pathname, options);
              if (!response.ok) throw new Error(String(response.status));
              const text = await response.text();
              if (!text.includes("<main>")) throw new Error("no page");
              // A new siwatch has another page. The policy of this page forbids its styles.
              if (!text.includes(`>${style}<`) || !text.includes(`>${script}<`)) return location.reload();
              if (isCopying(document.querySelector("main")) && held < heldMost) held += 1;
              else { held = 0; swap(new DOMParser().parseFromString(text, "text/html")); }
              say("");
            } catch {
              say(`siwatch has not answered since ${document.getElementById("at").textContent}.`);
            } finally {
              asking = false;
              clearTimeout(timer);
              if (!document.hidden) timer = setTimeout(ask, period);
            }
          };

          document.addEventListener("visibilitychange", () => { clearTimeout(timer); ask(); });
          if (!document.hidden) timer = setTimeout(ask, period);
        })();
        """#
}
