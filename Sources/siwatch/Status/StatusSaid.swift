// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What `status` says: the daemon's own words, else the tables'.
struct StatusSaid {
    /// The worst first.
    var findings: [Finding]
    var text: String
    var json: String

    /// For probes: the worst finding.
    var line: String {
        let sentence = findings.first { $0.severity > .note }?.sentence
        return [findings.worst.health, sentence].compactMap(\.self).joined(separator: ": ")
    }

    init(_ options: CommonOptions) async throws {
        let configuration: Configuration
        do {
            configuration = try options.readConfiguration(opensDatabase: false)
        } catch {
            // The daemon still runs on an older version of the file.
            guard let place = Configuration.Operations().places.first, let answer = try? await DaemonAnswer(askedAt: place) else {
                throw error
            }
            self.init(answer)
            findings += error.messages.map { Finding(.degraded, $0) }
            text += "\nthe configuration file cannot be used as it stands now:" + error.messages.map { "\n    \($0)" }.joined()
            return
        }
        let database = try configuration.namedDatabase()
        var silence: Finding?
        var barriers: [String] = []
        for place in configuration.operations.places where silence == nil {
            // Anybody on this host may listen there while siwatch is down.
            if case (.address, .file) = (place, database), !database.isLocked { continue }
            do throws(DaemonAnswer.Failure) {
                let answer = try await DaemonAnswer(askedAt: place)
                if answer.head.database == database.name {
                    self.init(answer)
                    return
                }
                barriers.append("\(place): the siwatch of another database answers")
            } catch {
                switch error {
                case .silent(let reason):
                    silence = Finding(.down, "the siwatch at \(place) does not answer: \(reason)", runbook: .notReady)
                case .barred(let reason): barriers.append("\(place): \(reason)")
                }
            }
        }
        try options.leaveRoot(on: database)
        var report: StatusReport
        do {
            report = try await configuration.withStore { try await StatusReport(of: configuration, in: $0) }
        } catch let failure as CommandFailure where failure.isTransient {
            try self.init(silence, failure.messages.map { "the database does not answer: \($0)" })
            return
        } catch let failure as CommandFailure {
            // They name what mends it, and siwatch does not start before.
            let obstacles = database.obstacles(besideKey: configuration.encryption.keyFile)
            guard !obstacles.isEmpty else { throw failure }
            try self.init(silence, obstacles.map { "siwatch cannot use the database: \($0)" })
            return
        }
        report.daemonSilence = silence
        report.barriers = barriers
        try self.init(report)
    }

    private init(_ answer: DaemonAnswer) {
        findings = answer.head.findings
        (text, json) = (answer.text, answer.json)
        while text.hasSuffix("\n") { text.removeLast() }
        guard answer.head.version != Version.current else { return }
        text += "\ninstalled is version \(Version.current); siwatch doctor --before-start says whether a restart would start it"
    }

    /// Neither the daemon nor the database answers.
    private init(_ silence: Finding?, _ sentences: [String]) throws {
        // siwatch cannot start before the database answers.
        findings = sentences.map { Finding(.down, $0, runbook: .storeErrors) }
        findings.append(silence ?? Finding(.down, "no siwatch answers on this host", runbook: .down))
        text = (["health: \(findings.worst.health)"] + findings.flatMap(\.lines)).joined(separator: "\n")
        json = try siwatch.json(of: findings.members)
    }

    private init(_ report: StatusReport) throws {
        findings = report.findings
        text = report.lines.joined(separator: "\n")
        json = try siwatch.json(of: report)
    }
}
