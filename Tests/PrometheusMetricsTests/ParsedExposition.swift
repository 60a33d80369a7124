// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Parses Prometheus text more strictly than Prometheus does, without a line of the code that writes it.
struct ParsedExposition {
    struct Family: Equatable {
        var name: String
        var help: String
        var type: String
        var samples: [Sample] = []
    }

    struct Sample: Equatable {
        var name: String
        var labels: [String: String]
        var value: Double
    }

    struct SyntaxError: Error {
        var line: String
        var complaint: String
    }

    private(set) var families: [Family] = []

    init(_ text: String) throws {
        var lines = text.unicodeScalars.split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.popLast()?.isEmpty == true else { throw SyntaxError(line: text, complaint: "does not end with a newline") }
        for line in lines {
            var scanner = Scanner(line)
            if scanner.skip("# HELP ") {
                let name = try scanner.name()
                try scanner.expect(" ")
                try families.append(Family(name: name, help: scanner.text(until: nil), type: ""))
            } else if scanner.skip("# TYPE ") {
                try scanner.require(families.last?.type == "", "TYPE does not follow HELP")
                try scanner.expect("\(families[families.count - 1].name) ")
                families[families.count - 1].type = scanner.rest()
            } else {
                let sample = try scanner.sample()
                try scanner.require(families.last?.sampleNames.contains(sample.name) == true, "stands under another family")
                families[families.count - 1].samples.append(sample)
            }
        }
        guard Set(families.map(\.name)).count == families.count else { throw SyntaxError(line: "", complaint: "a family appears twice") }
        let series = families.flatMap(\.samples).map { [$0.name: $0.labels] }
        guard Set(series).count == series.count else { throw SyntaxError(line: "", complaint: "a series appears twice") }
    }

    /// The one value of these labels.
    func value(_ name: String, _ labels: [String: String] = [:]) -> Double? {
        families.lazy.flatMap(\.samples).first { $0.name == name && $0.labels == labels }?.value
    }
}

extension ParsedExposition.Family {
    fileprivate var sampleNames: [String] {
        switch type {
        case "counter", "gauge": [name]
        case "histogram": ["\(name)_bucket", "\(name)_sum", "\(name)_count"]
        default: []
        }
    }
}

/// Parses one line, scalar by scalar.
private struct Scanner {
    private let line: Substring.UnicodeScalarView
    private var left: Substring.UnicodeScalarView

    init(_ line: Substring.UnicodeScalarView) {
        self.line = line
        self.left = line
    }

    func require(_ condition: Bool, _ complaint: String) throws {
        guard condition else { throw ParsedExposition.SyntaxError(line: String(line), complaint: complaint) }
    }

    mutating func skip(_ text: String) -> Bool {
        guard left.starts(with: text.unicodeScalars) else { return false }
        left.removeFirst(text.unicodeScalars.count)
        return true
    }

    mutating func expect(_ text: String) throws { try require(skip(text), "expected '\(text)' before '\(String(left))'") }

    mutating func rest() -> String {
        defer { left = left[left.endIndex...] }
        return String(left)
    }

    mutating func name() throws -> String {
        let name = left.prefix { $0 == "_" || $0.isASCII && ($0.properties.isAlphabetic || "0"..."9" ~= $0) }
        try require(name.first.map { !("0"..."9" ~= $0) } ?? false, "expected a name before '\(String(left))'")
        left.removeFirst(name.count)
        return String(name)
    }

    /// Unescaped text up to a quote or up to the end of the line. A quote inside must be escaped.
    mutating func text(until end: Unicode.Scalar?) throws -> String {
        var text = String.UnicodeScalarView()
        while let scalar = left.popFirst() {
            if scalar == end { return String(text) }
            guard scalar == "\\" else {
                text.append(scalar)
                continue
            }
            switch left.popFirst() {
            case "\\": text.append("\\")
            case "n": text.append("\n")
            case "\"" where end == "\"": text.append("\"")
            default: try require(false, "unknown escape")
            }
        }
        try require(end == nil, "text has no end")
        return String(text)
    }

    mutating func sample() throws -> ParsedExposition.Sample {
        let name = try name()
        var labels: [String: String] = [:]
        if skip("{") {
            repeat {
                let label = try self.name()
                try expect("=\"")
                try require(labels.updateValue(text(until: "\""), forKey: label) == nil, "label appears twice")
            } while skip(",")
            try expect("}")
        }
        try expect(" ")
        return try ParsedExposition.Sample(name: name, labels: labels, value: number(rest()))
    }

    private func number(_ text: String) throws -> Double {
        switch text {
        case "+Inf": return .infinity
        case "-Inf": return -.infinity
        case "NaN": return .nan
        default:
            let value = text.allSatisfy { "0123456789+-.e".contains($0) } ? Double(text) : nil
            try require(value != nil, "not a number: '\(text)'")
            return value!
        }
    }
}
