//! Replicas that take nothing and do not break off either: their disks hang, for example.

use archipel_base::{PartitionId, Stamp};
use archipel_net::{Error as NetError, ReceiveFrames, SendFrames};
use async_trait::async_trait;
use tokio::time::{Instant, timeout};

use super::*;
use crate::memory::World;
use crate::node::options::Hooks;
use crate::register::Request;

/// Longer than any time limit of a write.
const EVER: Duration = Duration::from_secs(600);

/// One half of a stream whose peer does nothing.
struct Hanging {
    /// The frames that the windows take.
    room: usize,
}

#[async_trait]
impl SendFrames for Hanging {
    async fn send(&mut self, _: Bytes) -> Result<(), NetError> {
        match self.room.checked_sub(1) {
            Some(left) => self.room = left,
            None => std::future::pending().await,
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), NetError> {
        Ok(())
    }

    fn set_class(&mut self, _: Class) {}
}

#[async_trait]
impl ReceiveFrames for Hanging {
    async fn receive(&mut self) -> Result<Option<Bytes>, NetError> {
        std::future::pending().await
    }
}

async fn group() -> (World, Group) {
    let latency = Duration::from_millis(1);
    let world = World::new(3, 3, latency, 1, Hooks::NONE).await.unwrap();
    let group = world.nodes[0].group(PartitionId(0)).unwrap();
    (world, group)
}

fn remote(group: &Group) -> usize {
    group.others().next().unwrap()
}

/// Its permits are for all writers of the node.
#[tokio::test(start_paused = true)]
async fn a_stream_that_takes_nothing_ends_and_gives_its_permits_back() {
    let (_world, group) = group().await;
    for (frames, is_call) in [(0, false), (1, false), (2, true)] {
        let room = Arc::new(Semaphore::new(1));
        let (items, queue) = mpsc::channel(QUEUE);
        let address = group.address(remote(&group)).unwrap();
        let stream = Stream {
            send: Box::new(Hanging { room: frames }),
            receive: Box::new(Hanging { room: 0 }),
        };
        let feeding = tokio::spawn(feed(stream, UploadOpen { address }, queue));
        let (sender, answer) = oneshot::channel();
        match is_call {
            true => {
                let request = Request::Prepare {
                    ballot: Stamp::ZERO,
                    asking: None,
                    guarded: false,
                };
                let call = RowCall::plain(address, Bytes::new(), request);
                let _ = items.send(Item::Call(Box::new(call), sender)).await;
            }
            false => {
                let permit = room.clone().acquire_owned().await.unwrap();
                let _ = items.send(Item::Block(Bytes::new(), permit)).await;
            }
        }
        let ended = timeout(EVER, feeding).await;
        assert!(ended.expect("it goes on for ever").unwrap().is_err());
        assert_eq!(room.available_permits(), 1);
        assert!(!is_call || answer.await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn an_append_whose_replicas_hang_ends_with_an_error() {
    let (world, group) = group().await;
    let mut writer = BlockWriter::new((*world.nodes[0]).clone(), group.clone());
    let mut hanging = Vec::new();
    for remote in &mut writer.remotes {
        let (items, queue) = mpsc::channel(QUEUE);
        (remote.items, remote.room) = (items, Arc::new(Semaphore::new(2)));
        hanging.push(queue);
    }
    let block = Bytes::from_static(b"block");
    for _ in 0..2 {
        writer.append(block.clone()).await.unwrap();
    }
    let begun = Instant::now();
    let refused = timeout(EVER, writer.append(block)).await;
    let refused = refused.expect("it waits for ever");
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(begun.elapsed() >= GRACE, "{:?}", begun.elapsed());
}

/// A stream that notes the class of each frame.
#[derive(Clone, Default)]
struct Noting {
    class: Option<Class>,
    noted: Arc<parking_lot::Mutex<Vec<Option<Class>>>>,
}

#[async_trait]
impl SendFrames for Noting {
    async fn send(&mut self, _: Bytes) -> Result<(), NetError> {
        self.noted.lock().push(self.class);
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), NetError> {
        Ok(())
    }

    fn set_class(&mut self, class: Class) {
        self.class = Some(class);
    }
}

/// Found by reading: all uploads came before all reads that tell what is left of them.
#[tokio::test(start_paused = true)]
async fn a_long_upload_gives_way_and_a_short_one_does_not() {
    let (_world, group) = group().await;
    let noting = Noting::default();
    let (items, queue) = mpsc::channel(QUEUE);
    let address = group.address(remote(&group)).unwrap();
    let stream = Stream {
        send: Box::new(noting.clone()),
        receive: Box::new(Hanging { room: 0 }),
    };
    let feeding = tokio::spawn(feed(stream, UploadOpen { address }, queue));
    let room = Arc::new(Semaphore::new(3));
    for len in [1000, 1000, 500] {
        let permit = room.clone().acquire_owned().await.unwrap();
        let block = Bytes::from(vec![0; len]);
        let _ = items.send(Item::Block(block, permit)).await;
    }
    let request = Request::Prepare {
        ballot: Stamp::ZERO,
        asking: None,
        guarded: false,
    };
    let call = RowCall::plain(address, Bytes::new(), request);
    let (sender, _answer) = oneshot::channel();
    let _ = items.send(Item::Call(Box::new(call), sender)).await;
    drop(items);
    let _ = timeout(EVER, feeding).await;
    let noted = noting.noted.lock().clone();
    let remaining = [1000, 2000, 2500, 0].map(|remaining| Some(Class::Data { remaining }));
    assert_eq!(noted[1..], remaining);
}
