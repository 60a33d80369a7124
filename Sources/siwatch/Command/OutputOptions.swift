// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser

struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON, for programs.") var json = false

    /// Prints one of two forms of a report.
    func print(_ report: some Encodable, _ text: @autoclosure () -> String) throws {
        if json { try printJSON(Versioned(report)) } else { try printOutput(text()) }
    }
}

/// A report with the number of its form. Within one `schema`, members are added and never changed.
private struct Versioned<Report: Encodable>: Encodable {
    private let report: Report

    private enum CodingKeys: CodingKey {
        case schema
    }

    init(_ report: Report) {
        self.report = report
    }

    func encode(to encoder: any Encoder) throws {
        try report.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(1, forKey: .schema)
    }
}
