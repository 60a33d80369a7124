// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1

/// What the running siwatch says of itself, over its socket.
struct DaemonAnswer {
    /// The document of `/status.json`.
    var json: String
    /// The same for people.
    var text: String
    var head: Head

    /// The members of the document that the command needs. A daemon of another version has them too.
    struct Head: Decodable {
        var database: String
        var version: String
        var health: String
        var findings: [Finding]
    }

    enum Failure: Error, Equatable {
        /// Nobody listens there.
        case absent
        /// This user may not ask, or others may answer in siwatch's place.
        case barred(String)
        /// Somebody listens, and does not answer in time or in order.
        case silent(String)
    }

    /// A healthy siwatch answers in milliseconds.
    private static let patience = TimeAmount.seconds(5)
    private static let longest = 4 << 20

    /// - Parameter socket: the path of a Unix socket.
    init(askedAt socket: String) async throws(Failure) {
        if let danger = UnixSocket.danger(at: socket) { throw .barred(danger) }
        guard UnixSocket.isListenedOn(socket) else {
            if errno == EACCES { throw .barred(systemError()) }
            throw .absent
        }
        do {
            json = try await Self.fetch("/status.json", "application/json", at: socket)
            text = try await Self.fetch("/", "text/plain", at: socket)
            head = try JSONDecoder().decode(Head.self, from: Data(json.utf8))
        } catch let failure as Failure {
            throw failure
        } catch let error as HTTPClientError {
            throw error == .deadlineExceeded ? .silent("no answer within 5 s") : .silent("\(error)")
        } catch let error as IOError {
            throw .silent(systemError(error.errnoCode))
        } catch {
            throw .silent("\(error)")
        }
    }

    private static func fetch(_ path: String, _ type: String, at socket: String) async throws -> String {
        guard let url = URL(httpURLWithSocketPath: socket, uri: path) else { throw Failure.absent }
        var request = HTTPClientRequest(url: url.absoluteString)
        request.headers.add(name: "accept", value: type)
        let response = try await HTTPClient.shared.execute(request, timeout: patience)
        guard response.status == .ok else { throw Failure.silent("status \(response.status.code)") }
        return String(buffer: try await response.body.collect(upTo: longest))
    }
}
