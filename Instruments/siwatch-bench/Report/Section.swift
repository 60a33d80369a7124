// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// One table of the report.
struct Section: Sendable, CustomStringConvertible {
    var title: String
    var rows: [Row]
    /// The arguments that repeat this section alone.
    var arguments: String

    struct Row: Sendable {
        var label: String
        var figure: String
        /// siwatch's share of a limit, and how reliable that is.
        var ratio: String?
    }

    init(_ title: String, _ rows: [Row], arguments: String) {
        self.title = title
        self.rows = rows
        self.arguments = arguments
    }

    var description: String {
        let labels = rows.map(\.label.count).max() ?? 0
        let figures = rows.map(\.figure.count).max() ?? 0
        let lines = rows.map { row in
            let ratio = row.ratio.map { "   × \($0)" } ?? ""
            return "  \(row.label)\(spaces(labels - row.label.count))  \(spaces(figures - row.figure.count))\(row.figure)\(ratio)"
        }
        return ([title] + lines + ["  make bench ARGS=\"\(arguments)\"", ""]).joined(separator: "\n")
    }

    private func spaces(_ count: Int) -> String {
        String(repeating: " ", count: count)
    }
}

extension Section.Row {
    static func ours(_ label: String, _ perSecond: Double) -> Self {
        Self(label: label, figure: perSecond.perSecond)
    }

    /// The median of several measurements. The array must not be empty.
    static func ours(_ label: String, _ rates: [Double]) -> Self {
        ours(label + between(rates.min()!...rates.max()!), rates.median)
    }

    /// A limit, and siwatch's share of it.
    static func limit(_ limit: Limit, of ours: Double) -> Self {
        switch limit.reading {
        case .perSecond(let rate):
            let spread = limit.spread.map { "  " + between($0) } ?? ""
            return Self(label: limit.label, figure: rate.perSecond, ratio: (ours / rate).rounded(to: 2) + spread)
        case .unknown(let reason):
            return Self(label: limit.label, figure: reason)
        }
    }

    private static func between(_ spread: ClosedRange<Double>) -> String {
        " (\(spread.lowerBound.rounded(to: 0)) … \(spread.upperBound.rounded(to: 0)))"
    }
}
