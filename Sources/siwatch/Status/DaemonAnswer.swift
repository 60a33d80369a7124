// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix

/// What the running siwatch says of itself, over its socket or its address.
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
        var findings: [Finding]
    }

    enum Failure: Error, Equatable {
        /// Nobody listens there, or this user may not ask, or others may answer in siwatch's place.
        case barred(String)
        /// Somebody listens, and does not answer in time or in order.
        case silent(String)
    }

    /// A healthy siwatch answers in milliseconds.
    private static let patience = TimeAmount.seconds(5)
    private static let longest = 4 << 20

    init(askedAt place: Configuration.HTTP.Listen) async throws(Failure) {
        switch place {
        case .socket(let path):
            if let danger = UnixSocket.danger(at: path) { throw .barred(danger) }
            guard UnixSocket.isListenedOn(path) else { throw .barred(errno == EACCES ? systemError() : "nobody listens there") }
        case .address(let address):
            // async-http-client tries again until its time-out.
            let connecting = ClientBootstrap(group: HTTPClient.defaultEventLoopGroup).connectTimeout(Self.patience)
            let connection = try? await connecting.connect(host: address.host, port: address.port).get()
            guard let connection else { throw .barred("nobody listens there") }
            try? await connection.close()
        }
        do {
            json = try await Self.fetch("/status.json", "application/json", at: place)
            text = try await Self.fetch("/", "text/plain", at: place)
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

    private static func fetch(_ path: String, _ type: String, at place: Configuration.HTTP.Listen) async throws -> String {
        let url =
            switch place {
            case .socket(let socket): URL(httpURLWithSocketPath: socket, uri: path)?.absoluteString ?? ""
            case .address(let address): "http://\(address)\(path)"
            }
        var request = HTTPClientRequest(url: url)
        request.headers.add(name: "accept", value: type)
        let response = try await HTTPClient.shared.execute(request, timeout: patience)
        guard response.status == .ok else { throw Failure.silent("status \(response.status.code)") }
        return String(buffer: try await response.body.collect(upTo: longest))
    }
}
