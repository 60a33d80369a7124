import ArgumentParser
import AsyncHTTPClient
import Hummingbird
import TOMLKit
import ServiceLifecycle
import Metrics
@main struct Siwatch: AsyncParsableCommand {}
