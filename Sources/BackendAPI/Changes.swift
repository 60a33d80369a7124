// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import NIOFoundationCompat

/// The feed of changes, by long polls and as Server-Sent Events.
struct Changes: Sendable {
    let desk: any BackendDesk
    let apps: [String]
    /// Waits until the feed is longer than up to an id.
    let news: Waiters<Int64, Void>

    /// In seconds. The server closes a connection that takes longer.
    private static let longestWait: Int64 = 25
    private static let mostChanges: Int64 = 500

    /// - Parameter releases: of `news`, before the request was admitted.
    func show(_ request: Request, since releases: Int) async throws(Problem) -> Response {
        var query = Members(ofQuery: request)
        var after = query.text("after", .row).flatMap(RowReference.init)
        let limit = query.integer("limit", 1...Self.mostChanges) ?? Self.mostChanges
        let wait = query.integer("wait", 0...Self.longestWait)
        let app = query.text("app", .appName)
        if let app, !apps.contains(app) { query.note("app names no app of the configuration") }
        if let last = request.headers[.lastEventID] {
            after = RowReference(last)
            if after == nil { query.note("the header Last-Event-ID is not the id of a change") }
        }
        try query.finish()
        guard let after else { return .json(Document(changes: [], next: try await read(after: .max, upTo: 0).newest)) }
        if request.headers[.accept]?.contains("text/event-stream") == true {
            // It begins at once.
            let first = try await page(after: after, of: app, upTo: Int(limit), since: releases)
            let length = Duration.seconds(wait ?? Self.longestWait)
            return stream(first, after: after, of: app, upTo: Int(limit), since: releases, for: length)
        }
        let page = try await page(after: after, waiting: .seconds(wait ?? 0), of: app, upTo: Int(limit), since: releases)
        return .json(Document(changes: page.told.map(Change.init), next: page.next(after: after, upTo: Int(limit))))
    }

    private struct Document: Encodable {
        var changes: [Change]
        var next: RowReference
    }

    /// - Throws: `changesGone` if the follower has to begin anew.
    private func page(
        after row: RowReference,
        waiting limit: Duration = .zero,
        of app: String?,
        upTo count: Int,
        since releases: Int
    ) async throws(Problem) -> ChangePage {
        let deadline = ContinuousClock.now + limit
        var position = row
        while true {
            let page = try await read(after: position.id, of: app, upTo: count)
            guard !page.isGone(after: position) else {
                throw Problem(.changesGone, "ask ends-session for each session you keep, and go on after next", next: page.newest)
            }
            let left = deadline - .now
            guard page.told.isEmpty, left > .zero else { return page }
            // What is there is of other apps, or of nobody.
            position = page.next(after: position, upTo: count)
            guard await news.news(of: position.id, within: left, since: releases) != nil else { return page }
        }
    }

    private func read(after id: Int64, of app: String? = nil, upTo count: Int) async throws(Problem) -> ChangePage {
        try await Problem.reading { try await desk.changes(after: id, of: app, upTo: count) }
    }

    /// - Parameter count: of changes in a page at most. Those after them come in the next one.
    private func stream(
        _ first: ChangePage,
        after row: RowReference,
        of app: String?,
        upTo count: Int,
        since releases: Int,
        for length: Duration
    ) -> Response {
        let body = ResponseBody { writer in
            let end = ContinuousClock.now + length
            var (page, position) = (first, row)
            // Tells the client that the stream is open, and when to come again after its end.
            try await writer.write(ByteBuffer(string: "retry: 1000\n\n"))
            while true {
                for change in page.told { try await writer.write(try Self.event(change)) }
                position = page.next(after: position, upTo: count)
                // Keeps the client's place without an event, beyond the changes of other apps.
                if position != page.told.last?.row ?? row { try await writer.write(ByteBuffer(string: "id: \(position)\n\n")) }
                let left = end - .now
                guard left > .zero else { break }
                do {
                    page = try await self.page(after: position, waiting: left, of: app, upTo: count, since: releases)
                } catch {
                    // The next request says why.
                    break
                }
                if page.told.isEmpty { break }
            }
            try await writer.finish(nil)
        }
        return Response(status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-store"], body: body)
    }

    private static func event(_ change: PublishedChange) throws -> ByteBuffer {
        var buffer = ByteBuffer(string: "event: change\nid: \(change.row)\ndata: ")
        buffer.writeBytes(try JSONEncoder.door.encode(Change(change: change)))
        buffer.writeString("\n\n")
        return buffer
    }
}

extension ChangePage {
    fileprivate var told: [PublishedChange] { changes.filter { !$0.isOfNobody } }

    /// Where a follower goes on. If there are no more changes, after those of other apps.
    fileprivate func next(after row: RowReference, upTo limit: Int) -> RowReference {
        let last = changes.last?.row ?? row
        return changes.count < limit && newest.id > last.id ? newest : last
    }
}

/// A change as followers read it: its `id` names the place in the feed.
private struct Change: Encodable {
    let change: PublishedChange

    private enum CodingKeys: CodingKey {
        case id
    }

    func encode(to encoder: any Encoder) throws {
        try change.encode(to: encoder)
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(change.row, forKey: .id)
    }
}
