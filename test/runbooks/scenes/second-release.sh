# The merged change is released, carried to the node and confirmed there.
cd /root/rules
git pull -q --ff-only
sluice release rendered --serial auto --source "$(git rev-parse HEAD)" -o /root/release >/dev/null 2>&1
sluice sign /root/release --key /root/.ssh/releases 2>/dev/null
sluice pack /root/release --node node-1 -o /root/node-1.tar.zst >/dev/null 2>&1
sluiced import /root/node-1.tar.zst >/dev/null
until sluiced status -o json | jq -e '.generation == 2 and .open == null' >/dev/null; do sleep 0.3; done
