// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The parts that the sections are made of.
extension HTML {
    /// A word of machines. It may break after a separator.
    static func code(_ text: String, class name: String? = nil) -> HTML {
        let body = text.map { character -> HTML in "\(String(character))" + ("_.@/:=".contains(character) ? "<wbr>" : "") }.joined()
        return name.map { "<code class=\"\($0)\">\(body)</code>" } ?? "<code>\(body)</code>"
    }

    /// A mark of a fact that is not as it should be.
    static func mark(_ severity: Finding.Severity) -> HTML {
        severity == .note ? "" : "<strong class=\"severity \(severity.tone)\">\(severity.rawValue)</strong> "
    }

    static func section(_ id: String, _ title: String, _ content: HTML) -> HTML {
        """
        <section id="\(id)" aria-labelledby="\(id)-title">
        <h2 id="\(id)-title">\(title)</h2>
        <div>
        \(content)
        </div>
        </section>
        """
    }

    static func pairs(_ rows: [(name: String, value: HTML)]) -> HTML {
        let body = rows.map { row -> HTML in "<div><dt>\(row.name)</dt><dd>\(row.value)</dd></div>" }
        return "<dl class=\"pairs\">\n\(body.joined(separator: "\n"))\n</dl>"
    }

    /// Rows under a common name, or under none.
    struct Group {
        var name: String?
        var rows: [[HTML]]
    }

    /// - Parameter columns: the name of each, and its class.
    /// - Parameter style: `stack` lets narrow screens put the cells of a row below each other, each after its column's name.
    static func table(_ caption: String, _ columns: KeyValuePairs<String, String>, _ groups: [Group], style: String = "") -> HTML {
        // Cells that are no table cells for the eye stay such for a screen reader.
        let isStack = style.hasPrefix("stack")
        func role(_ name: HTML) -> HTML { isStack ? " role=\"\(name)\"" : "" }
        func kind(_ style: String) -> HTML { style.isEmpty ? "" : " class=\"\(style)\"" }
        let head = columns.map { name, style -> HTML in "<th\(kind(style)) scope=\"col\"\(role("columnheader"))>\(name)</th>" }
        let bodies = groups.map { group -> HTML in
            let width = columns.count
            let name = group.name.map { name -> HTML in "<tr><th scope=\"rowgroup\" colspan=\"\(width)\">\(name)</th></tr>\n" } ?? ""
            let rows = group.rows.map { row -> HTML in
                let cells = zip(row, columns).enumerated().map { index, cell -> HTML in
                    let (value, column) = cell
                    if index == 0 { return "<th\(kind(column.value)) scope=\"row\"\(role("rowheader"))>\(value)</th>" }
                    let label: HTML = isStack ? " data-label=\"\(column.key)\"" : ""
                    return "<td\(kind(column.value))\(role("cell"))\(label)>\(value)</td>"
                }
                return "<tr\(role("row"))>\(cells.joined())</tr>"
            }
            return "<tbody\(role("rowgroup"))>\n\(name)\(rows.joined(separator: "\n"))\n</tbody>"
        }
        let attributes = kind(style) + role("table")
        return """
            <table\(attributes)>
            <caption>\(caption)</caption>
            <thead\(role("rowgroup"))><tr\(role("row"))>\(head.joined())</tr></thead>
            \(bodies.joined(separator: "\n"))
            </table>
            """
    }

    /// A course of numbers as a line, with the first and the last in words.
    static func course(_ values: [Int]) -> HTML {
        guard let first = values.first, let last = values.last, values.count > 1 else { return "–" }
        let (low, high) = (values.min() ?? 0, values.max() ?? 0)
        func tenths(_ value: Double) -> String { "\((value * 10).rounded() / 10)" }
        func height(_ value: Int) -> String { tenths(low == high ? 12 : 21 - 18 * Double(value - low) / Double(high - low)) }
        let points = values.enumerated()
            .map { "\(tenths(2 + 114 * Double($0.offset) / Double(values.count - 1))),\(height($0.element))" }
        return """
            <svg class="course" width="120" height="24" viewBox="0 0 120 24" fill="none" stroke="currentColor" aria-hidden="true">
            <polyline points="\(points.joined(separator: " "))" stroke-width="1.5" stroke-linejoin="round"/>
            <circle cx="116" cy="\(height(last))" r="2.5" fill="currentColor" stroke="none"/></svg>
            <span>from \(first.grouped) to \(last.grouped)</span>
            """
    }
}

extension Finding.Severity {
    /// The name of its colours.
    var tone: String {
        switch self {
        case .note: "well"
        case .degraded: "warning"
        case .down: "wrong"
        }
    }
}
