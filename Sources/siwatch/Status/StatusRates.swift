// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The rates of the last half minute, from the differences between reports.
struct StatusRates {
    static let answers = "answers"
    private static let longest = 30

    private var last: (at: ContinuousClock.Instant, counts: [String: Int])?
    private var rates: [String: [Double]] = [:]

    mutating func note(_ report: StatusReport, at now: ContinuousClock.Instant = .now) {
        var counts = Dictionary(uniqueKeysWithValues: report.tables.queues.map { ($0.queue, $0.settled) })
        counts[Self.answers] = report.tables.checks.answered
        if let last {
            let seconds = max((now - last.at) / .seconds(1), 0.001)
            for (name, count) in counts {
                // A daemon that starts counts its queues anew.
                let rate = Double(max(count - (last.counts[name] ?? 0), 0)) / seconds
                rates[name] = (rates[name, default: []] + [rate]).suffix(Self.longest)
            }
        }
        last = (now, counts)
    }

    /// The last rate, and a sparkline of the last half minute.
    func column(_ name: String) -> String {
        guard let rates = rates[name], let last = rates.last else { return "–".padded(to: -10) }
        let top = rates.max() ?? 0
        let line = rates.map { rate in
            top > 0 ? Array("▁▂▃▄▅▆▇█")[min(Int((rate / top * 7).rounded(.up)), 7)] : "▁"
        }
        let number = last < 10 && last > 0 ? "\((last * 10).rounded() / 10)" : "\(Int(last.rounded()))"
        return "\(number.padded(to: -10))  \(String(line))"
    }
}
