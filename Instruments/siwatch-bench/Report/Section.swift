// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import DaemonHarness
import Foundation

struct Section: Sendable, CustomStringConvertible {
    var title: String
    var rows: [Row]
    var arguments: String

    struct Row: Sendable {
        var label: String
        var figure: String
        /// siwatch's share of a limit, and how reliable that is.
        var ratio: String?

        init(_ label: String, _ figure: String, ratio: String? = nil) { (self.label, self.figure, self.ratio) = (label, figure, ratio) }
    }

    init(_ title: String, _ rows: [Row], arguments: String) { (self.title, self.rows, self.arguments) = (title, rows, arguments) }

    var description: String {
        let labels = rows.map(\.label.count).max() ?? 0
        let figures = rows.map(\.figure.count).max() ?? 0
        let lines = rows.map { row in
            let ratio = row.ratio.map { "   × \($0)" } ?? ""
            return "  \(row.label)\(spaces(labels - row.label.count))  \(spaces(figures - row.figure.count))\(row.figure)\(ratio)"
        }
        return ([title] + lines + ["  make bench ARGS=\"\(arguments)\"", ""]).joined(separator: "\n")
    }

    private func spaces(_ count: Int) -> String { String(repeating: " ", count: count) }
}

extension Section.Row {
    static func ours(_ label: String, _ perSecond: Double) -> Self { Self(label, perSecond.perSecond) }

    /// The median of several measurements. The array must not be empty.
    static func ours(_ label: String, _ rates: [Double]) -> Self { ours(label + between(rates.min()!...rates.max()!), rates.median) }

    static func limit(_ limit: Limit, of ours: Double) -> Self {
        switch limit.reading {
        case .perSecond(let rate):
            let spread = limit.spread.map { "  " + between($0) } ?? ""
            return Self(limit.label, rate.perSecond, ratio: (ours / rate).rounded(to: 2) + spread)
        case .unknown(let reason): return Self(limit.label, reason)
        }
    }

    private static func between(_ spread: ClosedRange<Double>) -> String {
        " (\(spread.lowerBound.rounded(to: 0)) … \(spread.upperBound.rounded(to: 0)))"
    }
}

/// The most that this machine could do, measured with a program that does one thing only.
struct Limit: Sendable {
    var label: String
    var reading: Reading
    /// How much the machine's speed varied meanwhile, if known.
    var spread: ClosedRange<Double>?

    enum Reading: Sendable {
        case perSecond(Double)
        /// The limit could not be measured, for this reason.
        case unknown(String)
    }

    init(_ label: String, _ reading: Reading, spread: ClosedRange<Double>? = nil) {
        (self.label, self.reading, self.spread) = (label, reading, spread)
    }

    /// The median of several measurements of one limit. The array must not be empty.
    static func median(_ label: String, _ rates: [Double]) -> Limit {
        Limit(label, .perSecond(rates.median), spread: rates.min()!...rates.max()!)
    }

    /// The mean of two measurements of one limit, before and after the figure beside it, because other programs use the machine too.
    static func mean(_ before: Limit, _ after: Limit) -> Limit {
        switch (before.reading, after.reading) {
        case (.perSecond(let first), .perSecond(let second)):
            Limit(before.label, .perSecond((first + second) / 2), spread: min(first, second)...max(first, second))
        case (.unknown, _): before
        case (_, .unknown): after
        }
    }
}

extension Double {
    var perSecond: String { "\(rounded(to: 0)) /s" }
    var percent: String { "\((self * 100).rounded(to: 2)) %" }
    func rounded(to digits: Int) -> String { formatted(.number.precision(.fractionLength(digits)).locale(Locale(identifier: "en_US"))) }
}

extension Duration {
    var inMilliseconds: String { inMilliseconds(to: 1) }
    func inMilliseconds(to digits: Int) -> String { "\((inSeconds * 1000).rounded(to: digits)) ms" }
    func perPiece(_ count: Int) -> String { "\((inSeconds * 1e6 / Double(count)).rounded(to: 0)) µs" }
}

extension Int {
    func perPiece(_ count: Int) -> String { "\((Double(self) / 1024 / Double(count)).rounded(to: 1)) KiB" }
}

extension Array where Element: Comparable {
    var median: Element { sorted()[count / 2] }
}

extension [Duration] {
    /// The smallest element that `share` of all elements do not exceed. The array must not be empty.
    func percentile(_ share: Double) -> Duration {
        let sorted = sorted()
        return sorted[Swift.min(Swift.max(Int((share * Double(count)).rounded(.up)) - 1, 0), count - 1)]
    }

    func figure(_ shares: Double..., digits: Int = 1) -> String {
        shares.map { percentile($0).inMilliseconds(to: digits) }.joined(separator: " / ")
    }
}

/// `openssl speed`: how many RS256 signatures a second the machine can verify, by OpenSSL's code.
enum OpenSSLSpeed {
    static func verifications(by processes: Int) async throws -> Limit {
        // Wall-clock time, as in all figures here, because a busy machine has less to give.
        let options = ["-mr", "-elapsed", "-seconds", "2"] + (processes > 1 ? ["-multi", "\(processes)"] : [])
        let openssl = try ChildProcess(URL(filePath: "/usr/bin/env"), ["openssl", "speed"] + options + ["rsa2048"])
        let status = try await openssl.end()
        let label = processes == 1 ? "1 process" : "\(processes) processes"
        return Limit("openssl speed rsa2048, verify, \(label)", reading(status, openssl.output))
    }

    private static func reading(_ status: Int32, _ output: [String]) -> Limit.Reading {
        switch status {
        case 0:
            // +F2:index:bits:signatures a second:verifications a second. With several processes, their sum comes last.
            let fields = output.last { $0.contains("+F2:") }?.split(separator: ":") ?? []
            return fields.count > 4 ? Double(fields[4]).map { .perSecond($0) } ?? unreadable : unreadable
        // The exit code of env for a missing program.
        case 127: return .unknown("openssl is not installed")
        default: return .unknown("openssl ended with \(status)")
        }
    }

    private static let unreadable = Limit.Reading.unknown("openssl says something else")
}
