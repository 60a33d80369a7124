// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What the first reading of a file has found, before anything is told.
struct ImportSurvey {
    private let columns: ImportColumns
    private(set) var count = 0
    private(set) var bad = 0
    private(set) var firstBad: [BadLine] = []
    /// Bad lines whose user is not Apple's, and the first of them.
    private var foreign: (count: Int, first: BadLine?) = (0, nil)
    /// How many of these lines hold what looks like a user of Apple's, by the column.
    private var lookalikes: [String: Int] = [:]
    private(set) var withoutToken = 0
    /// Lines without a time.
    private(set) var undated = 0
    /// Clients that the file names and siwatch does not know, at most `mostClients` of them.
    private(set) var unknownClients: Set<String> = []
    private(set) var preview: [(line: Int, signIn: ToldSignIn)] = []
    private var drawn: [(line: Int, signIn: ToldSignIn, unit: ImportedTime.Unit?)] = []
    /// Records of other providers, which an export has too.
    var others = 0
    /// Whether it has seen all lines, or all up to `end`.
    var isWhole = true
    /// Why the lines from some line on cannot be read; nil if all can.
    var end: String?
    private var units: [ImportedTime.Unit: Int] = [:]

    static let sampleCount = 40
    private static let previewLength = 10
    private static let mostClients = 20

    init(columns: ImportColumns) {
        self.columns = columns
    }

    mutating func look(at record: CSVRecord) {
        count += 1
        if columns.lacksTime(record) { undated += 1 }
        if unknownClients.count < Self.mostClients, let client = columns.unknownClient(of: record) { unknownClients.insert(client) }
        do throws(BadLine) {
            let (signIn, unit) = try columns.signIn(of: record, in: nil)
            if let unit { units[unit, default: 0] += 1 }
            if preview.count < Self.previewLength { preview.append((record.line, signIn)) }
            if signIn.proof == nil { withoutToken += 1 } else { draw((record.line, signIn, unit)) }
        } catch {
            bad += 1
            if firstBad.count < 3 { firstBad.append(error) }
            guard error.foreign != nil else { return }
            foreign = (foreign.count + 1, foreign.first ?? error)
            for name in columns.lookalikes(in: record) { lookalikes[name, default: 0] += 1 }
        }
    }

    /// Keeps lines from all over the file: those whose scattered numbers are the least, and so the same ones in a repeated command.
    private mutating func draw(_ line: (line: Int, signIn: ToldSignIn, unit: ImportedTime.Unit?)) {
        drawn.append(line)
        guard drawn.count > Self.sampleCount else { return }
        let last = drawn.indices.max { drawn[$0].line.scattered < drawn[$1].line.scattered }
        if let last { drawn.remove(at: last) }
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

    /// The first good lines, with users, tokens and addresses cut short.
    var lines: String {
        var lines = ["line  user  client  refresh token  signed in  e-mail"]
        for (line, signIn) in preview {
            let time = signIn.signedInAt?.text ?? "–"
            let cells = [signIn.userID?.cutShort ?? "–", signIn.clientID, signIn.maskedToken, time, signIn.address?.text.cutShort ?? "–"]
            lines.append("\(line)  " + cells.map(\.printable).joined(separator: "  "))
        }
        return lines.joined(separator: "\n")
    }

    /// How many lines are of users who are not Apple's, and what may be meant; nil if none is.
    var strangers: String? {
        guard let first = foreign.first, let example = first.foreign else { return nil }
        let share = "\(foreign.count.grouped) of \(count.grouped) lines (\(max(foreign.count * 100 / count, 1)) %)"
        let likely = lookalikes.max { ($0.value, $1.key) < ($1.value, $0.key) }
        let meant = likely.map { "Is the column \($0.key) meant? Name it user_id. " } ?? ""
        return """
            \(share) are not of Apple's users, and are bad ones: in line \(first.line) \(example), and Apple's look like \
            \(AppleUserID.example). \(meant)--any-id takes these lines too.
            """
    }

    /// What the columns are taken for, and how many lines are good.
    var verdict: String {
        let used = columns.places.sorted { $0.value < $1.value }.map { $0.key.rawValue }.joined(separator: ", ")
        var lines = ["Used columns: \(used)."]
        if !columns.unknown.isEmpty { lines.append("Ignored columns: \(columns.ignored).") }
        if others > 0 { lines.append("\(others.grouped) of other providers are left out.") }
        if let unit { lines.append("granted_at is in \(unit.rawValue)\([.text, .days].contains(unit) ? ", without a zone in UTC" : "").") }
        if undated > 0 {
            lines.append(
                columns.fallback.map { "\(undated.grouped) without granted_at: they count as signed in on \($0.text) (--granted-at)." }
                    ?? "\(undated.grouped) without granted_at: they are bad lines, because there is no --granted-at."
            )
        }
        if withoutToken > 0 { lines.append("\(withoutToken.grouped) without a token: siwatch cannot ask Apple about these users.") }
        if let strangers { lines.append(strangers) }
        if let end { lines.append("\(end).") }
        let place = end != nil ? "The part before it" : isWhole ? "The file" : "Its beginning"
        lines.append("\(place) has \(good.grouped) good lines and \((count - good).grouped) bad ones.")
        return (lines + firstBad.map { "  \($0.text)" }).joined(separator: "\n")
    }
}

extension ToldSignIn {
    /// The token as a person may see it.
    fileprivate var maskedToken: String {
        guard case .refreshToken(let secret) = proof else { return "–" }
        return "\(secret.reveal.cutShort) (\(secret.reveal.count.counted("character")))"
    }
}

extension String {
    /// At most three characters of the text and at most a quarter of it, so that a person can tell what it is and nobody can use it.
    fileprivate var cutShort: String { "\(prefix(Swift.min(3, count / 4)))…" }
}

extension Int {
    /// By the golden ratio, which spreads numbers that follow each other evenly (Fibonacci hashing).
    fileprivate var scattered: UInt64 { UInt64(truncatingIfNeeded: self) &* 0x9e37_79b9_7f4a_7c15 }
}
