// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

struct TextExposition {
    private(set) var text = ""
    private let format: ExpositionFormat

    init(_ format: ExpositionFormat) { self.format = format }

    mutating func begin(_ name: String, _ kind: MetricDescription.Kind, help: String) {
        let type =
            switch kind {
            case .counter: "counter"
            case .gauge: "gauge"
            case .histogram: "histogram"
            }
        let family = format == .openMetrics && type == "counter" && name.hasSuffix("_total") ? String(name.dropLast(6)) : name
        text += "# HELP \(family) \(help.escaped(quotes: format == .openMetrics))\n# TYPE \(family) \(type)\n"
    }

    mutating func sample(_ name: String, _ labels: String, _ value: Double) {
        text += labels.isEmpty ? "\(name) \(value.exposed)\n" : "\(name){\(labels)} \(value.exposed)\n"
    }

    /// The label value of a bucket's bound. OpenMetrics always has a decimal point.
    func bound(_ bound: Double) -> String {
        format == .openMetrics && bound.isFinite ? bound.description : bound.exposed
    }

    mutating func end() {
        if format == .openMetrics { text += "# EOF\n" }
    }
}

/// Label names and values as they stand between the braces. Equal sets have equal text, in any order.
struct Labels {
    let names: [String]
    let text: String

    init(_ dimensions: [(String, String)]) {
        let labels = dimensions.sorted { $0.0 < $1.0 }
        names = labels.map(\.0)
        // To Prometheus an empty label is an absent one. Written out, it could make two series of one.
        text = labels.filter { !$0.1.isEmpty }.map { "\($0)=\"\($1.escaped(quotes: true))\"" }.joined(separator: ",")
    }
}

extension String {
    /// Works scalar by scalar, because `"\r\n"` is one `Character`, and so is a quote with an accent.
    fileprivate func escaped(quotes: Bool) -> String {
        var escaped = UnicodeScalarView()
        for scalar in unicodeScalars {
            switch scalar {
            case "\\": escaped.append(contentsOf: #"\\"#.unicodeScalars)
            case "\n": escaped.append(contentsOf: #"\n"#.unicodeScalars)
            case "\"" where quotes: escaped.append(contentsOf: #"\""#.unicodeScalars)
            default: escaped.append(scalar)
            }
        }
        return String(escaped)
    }
}

extension Double {
    /// The number as Go's `ParseFloat` reads it; a whole number has no fraction.
    var exposed: String {
        if isNaN { return "NaN" }
        if isInfinite { return self < 0 ? "-Inf" : "+Inf" }
        return description.hasSuffix(".0") ? String(description.dropLast(2)) : description
    }
}

package enum ExpositionFormat: Sendable {
    /// Version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/
    case prometheus
    /// Version 1.0: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
    case openMetrics

    /// The format that a scraper prefers by its `Accept` header: Prometheus's own text if it accepts both equally or says nothing.
    package init(accept: String?) {
        var weights: [String: Double] = [:]
        for range in accept?.split(separator: ",") ?? [] {
            let parts = range.split(separator: ";").map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }
            guard let type = parts.first else { continue }
            // Skips a version other than 1.0, because siwatch does not write it.
            if type == "application/openmetrics-text", let version = parts.first(where: { $0.hasPrefix("version=") }),
                !version.hasPrefix("version=1.0")
            {
                continue
            }
            let weight = parts.first { $0.hasPrefix("q=") }.map { Double($0.dropFirst(2)) ?? 0 } ?? 1
            weights[type] = max(weights[type] ?? 0, weight)
        }
        let text = weights["text/plain"] ?? weights["text/*"] ?? weights["*/*"] ?? 0
        self = (weights["application/openmetrics-text"] ?? 0) > text ? .openMetrics : .prometheus
    }

    package var contentType: String {
        switch self {
        case .prometheus: "text/plain; version=0.0.4; charset=utf-8"
        case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
        }
    }
}
