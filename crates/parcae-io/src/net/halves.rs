//! The part that TCP and Unix streams share: methods, reading and writing, and halves, of which one
//! task reads and another writes.

/// Defines the methods that all streams have, their halves, and reading and writing. `$real` is the
/// type of the standard library, `$peer` the name of its peer.
macro_rules! stream_methods {
    ($stream:ident, $real:ty, |$io:ident| $peer:expr) => {
        impl $stream {
            /// Takes a connection over from the standard library. Its flags stay as they are.
            ///
            /// # Errors
            ///
            /// Under the deterministic executor, whose runs real sockets would make unrepeatable.
            pub fn from_std($io: $real) -> std::io::Result<$stream> {
                let peer = $peer;
                crate::net::stream::refuse_simulated(&peer)?;
                Ok($stream { stream: Stream::real($io, peer) })
            }

            /// Gives the connection to the standard library, as a blocking one.
            ///
            /// # Errors
            ///
            /// For a simulated connection; or if the kernel refuses.
            pub fn into_std(self) -> std::io::Result<$real> {
                let stream = self.stream.into_real()?;
                stream.set_nonblocking(false)?;
                Ok(stream)
            }

            /// Reads without taking the bytes out: the next read returns them again.
            ///
            /// # Errors
            ///
            /// As for reading.
            pub fn peek(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.stream.peek(buffer)
            }

            /// Ends reading, writing or both. The peer reads to the end of what was written. Ending
            /// what has ended already is no error.
            ///
            /// # Errors
            ///
            /// If the kernel refuses.
            pub fn shutdown(&self, how: std::net::Shutdown) -> std::io::Result<()> {
                self.stream.shutdown(how, |io| io.shutdown(how))
            }

            /// Ends the output, then reads and drops the peer's rest until its end, for at most
            /// `grace`. Closing at once instead, with unread input, would make the kernel reset the
            /// connection, and the peer might lose what it has not read yet.
            ///
            /// # Errors
            ///
            /// If the task is cancelled meanwhile. A peer that is gone or slow is no error.
            pub fn close_gracefully(self, grace: std::time::Duration) -> std::io::Result<()> {
                let how = std::net::Shutdown::Write;
                self.stream.close_gracefully(grace, |io| io.shutdown(how))
            }

            /// The longest time that a read waits; `None`: any time. An error `TimedOut` says that
            /// it has passed, and no byte was taken.
            ///
            /// # Errors
            ///
            /// For a timeout of zero.
            pub fn set_read_timeout(
                &self,
                time: Option<std::time::Duration>,
            ) -> std::io::Result<()> {
                self.stream.read_timeout.set(time)
            }

            /// As [`set_read_timeout`](Self::set_read_timeout), for writes.
            ///
            /// # Errors
            ///
            /// For a timeout of zero.
            pub fn set_write_timeout(
                &self,
                time: Option<std::time::Duration>,
            ) -> std::io::Result<()> {
                self.stream.write_timeout.set(time)
            }

            /// The timeout of reads.
            pub fn read_timeout(&self) -> Option<std::time::Duration> {
                self.stream.read_timeout.get()
            }

            /// The stream for async code: see [`Async`](crate::compat::Async).
            pub fn into_async(self) -> crate::compat::Async<$stream> {
                crate::compat::Async::new(self)
            }

            /// The timeout of writes.
            pub fn write_timeout(&self) -> Option<std::time::Duration> {
                self.stream.write_timeout.get()
            }
        }

        impl crate::compat::Polled for $stream {
            fn poll_read(
                &self,
                wait: &mut crate::net::PolledWait,
                context: &mut std::task::Context<'_>,
                buffer: &mut [u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.stream.poll_read(wait, context, buffer)
            }

            fn poll_write(
                &self,
                wait: &mut crate::net::PolledWait,
                context: &mut std::task::Context<'_>,
                bytes: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.stream.poll_write_vectored(wait, context, bytes)
            }

            fn poll_flush(
                &self,
                _: &mut crate::net::PolledWait,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready(Ok(())) // nothing is held back here
            }

            fn poll_end(
                &self,
                _: &mut crate::net::PolledWait,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready(self.shutdown(std::net::Shutdown::Write))
            }
        }

        /// The descriptor of a real connection.
        ///
        /// # Panics
        ///
        /// A simulated connection has none.
        impl std::os::fd::AsFd for $stream {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.stream.as_fd()
            }
        }
    };
}

/// Defines the halves of a stream type, and the reading and writing of the stream itself.
macro_rules! stream_halves {
    ($stream:ident, $read:ident, $write:ident, $owned_read:ident, $owned_write:ident) => {
        impl $stream {
            /// Splits the stream into a half that reads and one that writes, which borrow it.
            ///
            /// A shared reference reads and writes as well; halves tell two tasks apart.
            pub fn split(&mut self) -> ($read<'_>, $write<'_>) {
                let stream = &*self;
                ($read(stream), $write(stream))
            }

            /// Splits the stream into owned halves, for tasks that do not borrow it. Dropping the
            /// half that writes ends the output: the peer reads to the end.
            pub fn into_split(self) -> ($owned_read, $owned_write) {
                let stream = std::sync::Arc::new(self);
                ($owned_read(std::sync::Arc::clone(&stream)), $owned_write(Some(stream)))
            }
        }

        /// The reading half of a stream.
        #[derive(Debug)]
        pub struct $read<'s>(&'s $stream);

        /// The writing half of a stream.
        #[derive(Debug)]
        pub struct $write<'s>(&'s $stream);

        /// The owned reading half of a stream.
        #[derive(Debug)]
        pub struct $owned_read(std::sync::Arc<$stream>);

        /// The owned writing half of a stream. Dropping it ends the output.
        #[derive(Debug)]
        pub struct $owned_write(Option<std::sync::Arc<$stream>>);

        impl std::ops::Deref for $read<'_> {
            type Target = $stream;
            fn deref(&self) -> &$stream {
                self.0
            }
        }

        impl std::ops::Deref for $write<'_> {
            type Target = $stream;
            fn deref(&self) -> &$stream {
                self.0
            }
        }

        impl std::ops::Deref for $owned_read {
            type Target = $stream;
            fn deref(&self) -> &$stream {
                &self.0
            }
        }

        impl $owned_read {
            /// The whole stream again.
            ///
            /// # Errors
            ///
            /// The halves, if they are of two streams.
            pub fn reunite(
                self,
                other: $owned_write,
            ) -> Result<$stream, ($owned_read, $owned_write)> {
                let same = other.0.as_ref().is_some_and(|w| std::sync::Arc::ptr_eq(w, &self.0));
                if !same {
                    return Err((self, other));
                }
                let mut other = other;
                drop(other.0.take());
                std::sync::Arc::try_unwrap(self.0)
                    .map_err(|stream| ($owned_read(stream), $owned_write(None)))
            }
        }

        impl std::ops::Deref for $owned_write {
            type Target = $stream;
            fn deref(&self) -> &$stream {
                match &self.0 {
                    Some(stream) => stream,
                    None => unreachable!("taken out only when it is consumed"),
                }
            }
        }

        impl Drop for $owned_write {
            fn drop(&mut self) {
                if let Some(stream) = &self.0 {
                    // The peer may be gone: then there is no one to tell.
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                }
            }
        }

        crate::net::halves::reads!($stream, |this| &this.stream);
        crate::net::halves::reads!(&$stream, |this| &this.stream);
        crate::net::halves::reads!($read<'_>, |this| &this.0.stream);
        crate::net::halves::reads!($owned_read, |this| &this.0.stream);
        crate::net::halves::writes!($stream, |this| &this.stream);
        crate::net::halves::writes!(&$stream, |this| &this.stream);
        crate::net::halves::writes!($write<'_>, |this| &this.0.stream);
        crate::net::halves::writes!($owned_write, |this| &std::ops::Deref::deref(this).stream);
    };
}

/// `Read` for a type with a stream in it.
macro_rules! reads {
    ($type:ty, |$this:ident| $stream:expr) => {
        impl std::io::Read for $type {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let $this = &*self;
                $stream.read(buffer)
            }

            fn read_vectored(
                &mut self,
                buffers: &mut [std::io::IoSliceMut<'_>],
            ) -> std::io::Result<usize> {
                let $this = &*self;
                $stream.read_vectored(buffers)
            }
        }
    };
}

/// `Write` for a type with a stream in it.
macro_rules! writes {
    ($type:ty, |$this:ident| $stream:expr) => {
        impl std::io::Write for $type {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                let $this = &*self;
                $stream.write(bytes)
            }

            fn write_vectored(&mut self, bytes: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                let $this = &*self;
                $stream.write_vectored(bytes)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(()) // nothing is held back here
            }
        }
    };
}

pub(super) use {reads, stream_halves, stream_methods, writes};
