// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What a look at a file has found, before anything is told.
struct ImportSurvey {
    private let columns: ImportColumns
    private(set) var count = 0
    private(set) var bad = 0
    private(set) var firstBad: [BadLine] = []
    private(set) var withoutToken = 0
    private(set) var undated = 0
    private(set) var preview: [(line: Int, signIn: ToldSignIn)] = []
    private var drawn: [(line: Int, signIn: ToldSignIn, unit: ImportedTime.Unit?)] = []
    /// Whether it has seen all lines.
    var isWhole = true
    private var units: [ImportedTime.Unit: Int] = [:]
    private var seen = 0
    private var generator: SplitMix

    static let sampleCount = 40
    private static let previewLength = 10

    /// - Parameter seed: the same seed takes the same samples of the same file.
    init(columns: ImportColumns, seed: String) {
        self.columns = columns
        generator = SplitMix(state: seed.utf8.reduce(0) { $0 &* 31 &+ UInt64($1) })
    }

    mutating func look(at record: CSVRecord) {
        count += 1
        do throws(BadLine) {
            let (signIn, unit) = try columns.signIn(of: record, in: nil)
            if let unit { units[unit, default: 0] += 1 } else { undated += 1 }
            if preview.count < Self.previewLength { preview.append((record.line, signIn)) }
            if signIn.proof == nil { withoutToken += 1 } else { draw((record.line, signIn, unit)) }
        } catch {
            bad += 1
            if firstBad.count < 3 { firstBad.append(error) }
        }
    }

    /// Keeps each line with the same probability (reservoir sampling, algorithm R).
    private mutating func draw(_ line: (line: Int, signIn: ToldSignIn, unit: ImportedTime.Unit?)) {
        seen += 1
        if drawn.count < Self.sampleCount { return drawn.append(line) }
        let place = Int.random(in: 0..<seen, using: &generator)
        if place < Self.sampleCount { drawn[place] = line }
    }

    /// The unit of most lines. A line in another unit is a bad one, because its column probably is another.
    var unit: ImportedTime.Unit? { units.max { ($0.value, $1.key.rawValue) < ($1.value, $0.key.rawValue) }?.key }

    /// Lines from all over the file whose tokens Apple is asked about first.
    var samples: [(line: Int, signIn: ToldSignIn)] {
        let unit = unit
        return drawn.filter { $0.unit == nil || $0.unit == unit }.map { ($0.line, $0.signIn) }
    }

    var good: Int { count - bad - (units.values.reduce(0, +) - (unit.flatMap { units[$0] } ?? 0)) }

    // MARK: For people

    var text: String {
        var lines = ["line  user  client  refresh token  signed in  e-mail"]
        for (line, signIn) in preview {
            let time = signIn.signedInAt.map { $0 == Timestamp.legal.lowerBound ? "–" : $0.text } ?? "–"
            let cells = [signIn.userID ?? "", signIn.clientID, signIn.maskedToken, time, signIn.address?.text ?? "–"]
            lines.append("\(line)  " + cells.map(\.printable).joined(separator: "  "))
        }
        return (lines + [""] + verdict).joined(separator: "\n")
    }

    private var verdict: [String] {
        let used = columns.places.sorted { $0.value < $1.value }.map { $0.key.rawValue }.joined(separator: ", ")
        var lines = ["Used columns: \(used)."]
        if !columns.unknown.isEmpty { lines.append("Ignored columns: \(columns.unknown.map(\.printable).joined(separator: ", ")).") }
        if let unit { lines.append("granted_at is in \(unit.rawValue)\(unit == .text ? ", without a zone in UTC" : "").") }
        if undated > 0 {
            lines.append(
                """
                \(undated.grouped) without granted_at: they count as signed in on \(Timestamp.legal.lowerBound.text), so that they outdate \
                nothing that siwatch knows.
                """
            )
        }
        if withoutToken > 0 { lines.append("\(withoutToken.grouped) without a token: siwatch cannot ask Apple about these users.") }
        let place = isWhole ? "The file" : "Its beginning"
        lines.append("\(place) has \(good.grouped) good lines and \((count - good).grouped) bad ones.")
        return lines + firstBad.map { "  \($0.text)" }
    }
}

extension ToldSignIn {
    /// The token as a person may see it.
    fileprivate var maskedToken: String {
        guard case .refreshToken(let secret) = proof else { return "–" }
        return "\(secret.reveal.prefix(2))… (\(secret.reveal.count.counted("character")))"
    }
}

/// SplitMix64, which is the same on every machine.
private struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        return mixed ^ mixed >> 31
    }
}
