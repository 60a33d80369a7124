// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The pages for people who write a backend in SQL.
enum BackendPages {
    static let schema = file("docs/schema.md")
    static let sqlite = file("docs/backend-sqlite.md")
    static let postgresql = file("docs/backend-postgresql.md")

    /// The text of a file of the checkout.
    static func file(_ path: String) -> String {
        let url = URL(filePath: #filePath).appending(path: "../../../../\(path)").standardized
        return try! String(contentsOf: url, encoding: .utf8)
    }

    /// The blocks of SQL of a page.
    static func blocks(of page: String) -> [String] {
        page.components(separatedBy: "\n```sql\n").dropFirst().compactMap { $0.components(separatedBy: "\n```\n").first }
    }

    static let queues = ["notification_queue", "grant_queue", "revocation_queue"]

    /// The columns of a queue that the schema's page lets a backend set, each with its row.
    static func columns(of queue: String) -> [(name: String, row: String)] {
        let section = schema.components(separatedBy: "\n### `\(queue)`\n").last?.components(separatedBy: "\n###").first ?? ""
        return section.matches(of: /(?m)^\| `(\w+)` \| (.+) \|$/).map { (String($0.1), String($0.2)) }
    }

    /// The constraints that the rows of a queue name. A row has them without the name of its column.
    static func constraints(of queue: String) -> Set<String> {
        Set(columns(of: queue).flatMap { column in column.row.matches(of: #/\*([^*]+)\*/#).map { "\(column.name) \($0.1)" } })
    }

    /// Whether a page names a constraint outside of the rows, whole or without its first word.
    static func names(_ constraint: String, in page: String) -> Bool {
        let text = page.replacing("\n", with: " ")
        let rest = constraint.split(separator: " ").dropFirst().joined(separator: " ")
        return text.contains("*\(constraint)*") || text.contains("it *\(rest)*")
    }
}
