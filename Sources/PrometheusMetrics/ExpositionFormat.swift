// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The text format of metrics.
package enum ExpositionFormat: Sendable {
    /// Version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/
    case prometheus
    /// Version 1.0: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
    case openMetrics

    /// The format that a scraper prefers. It is Prometheus's own text if the scraper accepts both equally or says nothing.
    ///
    /// - Parameter accept: the scraper's `Accept` header (RFC 9110, section 12.5.1).
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
