# Ten machines and what a site has already: a registry, a web server with an S3 store behind it, and a Git host, all at 198.51.100.1 and
# with certificates of one private authority. SERVERS has their programs.
mkdir -p "$STAGE/site" /srv/cdn /srv/git/.ssh
cd "$STAGE/site"
chmod 755 "$STAGE" "$STAGE/site"
# The fetch process is not root.
cp -r "$(dirname "$(command -v sluiced)")" /srv/programs
chmod -R a+rX /srv/programs
PATH=/srv/programs:$PATH
site='registry.example.com git.example.com cdn.example.com bucket.example.com'
{
  echo 127.0.0.1 localhost
  echo 198.51.100.1 $site
  for n in $(seq 10); do echo 198.51.100.$((10 + n)) node-$n; done
} >/etc/hosts
printf 'sshd:x:991:991::/run/sshd:/usr/sbin/nologin\ngit:x:992:992::/srv/git:/usr/bin/git-shell\nsluice-fetch:x:993:993::/var/lib/sluice-fetch:/usr/sbin/nologin\n' >>/etc/passwd

ip link add site type bridge
ip address add 198.51.100.1/24 dev site
ip link set site up

new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650'
openssl req -x509 $new -keyout ca.key -out ca.pem -subj '/CN=Example authority' 2>/dev/null
openssl req -x509 $new -CA ca.pem -CAkey ca.key -keyout site.key -out site.pem -subj /CN=site \
  -addext "subjectAltName=$(printf 'DNS:%s,' $site | sed 's/,$//')" -addext basicConstraints=critical,CA:FALSE 2>/dev/null
cp ca.pem /root/ca.pem

cat >registry.yml <<END
version: 0.1
log: { level: error }
storage: { filesystem: { rootdirectory: $STAGE/site/registry } }
http: { addr: "198.51.100.1:5000", tls: { certificate: $STAGE/site/site.pem, key: $STAGE/site/site.key } }
END
"$SERVERS/docker-registry" serve registry.yml >/dev/null 2>&1 &

"$SERVERS/gofakes3" -backend memory -initialbucket sluice -host 127.0.0.1:9000 -quiet >/dev/null 2>&1 &
setpriv --reuid 992 --regid 992 --clear-groups "$SERVERS/fcgiwrap" -s tcp:127.0.0.1:9001 &
mkdir body
cat >nginx.conf <<END
user root;
worker_processes 1;
pid $STAGE/site/nginx.pid;
error_log $STAGE/site/nginx.log;
events {}
http {
  access_log off;
  client_max_body_size 0;
  client_body_temp_path $STAGE/site/body; proxy_temp_path $STAGE/site/body; fastcgi_temp_path $STAGE/site/body;
  uwsgi_temp_path $STAGE/site/body; scgi_temp_path $STAGE/site/body;
  ssl_certificate $STAGE/site/site.pem;
  ssl_certificate_key $STAGE/site/site.key;
  server { listen 198.51.100.1:443 ssl; server_name cdn.example.com; root /srv/cdn; }
  server { listen 198.51.100.1:443 ssl; server_name bucket.example.com; location / { proxy_pass http://127.0.0.1:9000; } }
  server {
    listen 198.51.100.1:443 ssl;
    server_name git.example.com;
    location / {
      fastcgi_pass 127.0.0.1:9001;
      fastcgi_param SCRIPT_FILENAME /usr/lib/git-core/git-http-backend;
      fastcgi_param GIT_PROJECT_ROOT /srv/git;
      fastcgi_param GIT_HTTP_EXPORT_ALL 1;
      fastcgi_param PATH_INFO \$uri;
      fastcgi_param QUERY_STRING \$query_string;
      fastcgi_param REQUEST_METHOD \$request_method;
      fastcgi_param CONTENT_TYPE \$content_type;
      fastcgi_param CONTENT_LENGTH \$content_length;
    }
  }
}
END
"$SERVERS/nginx" -p "$STAGE/site" -e "$STAGE/site/nginx.log" -c "$STAGE/site/nginx.conf"

# git@ may push with the key of the workstation; the page adds the one of the nodes.
ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
cp /root/.ssh/id_ed25519.pub /srv/git/.ssh/authorized_keys
git init -q --bare -b main /srv/git/releases.git
chown -R 992:992 /srv/git
mkdir -m 755 /run/sshd
cat >sshd.conf <<END
ListenAddress 198.51.100.1:22
HostKey $STAGE/site/host
PidFile none
UsePAM no
PasswordAuthentication no
END
"$SERVERS/sshd" -f "$STAGE/site/sshd.conf"
echo "git.example.com $(cut -d' ' -f1,2 host.pub)" >/root/.ssh/known_hosts

# Each node: a network of its own, and folders of its own in the places that the package uses.
mkdir /run/nodes
for n in $(seq 10); do
  name=node-$n
  own=$STAGE/nodes/$name
  mkdir -p "$own/etc" "$own/root" "$own/run" "$own/var"
  unshare --net --mount --uts sh -ec "
    mount --bind $own/root /root
    mount --bind $own/run /run
    mkdir -p /etc/sluice /var/lib/sluice
    mount --bind $own/etc /etc/sluice
    mount --bind $own/var /var/lib
    mkdir -p -m 700 /var/lib/sluice
    hostname $name
    exec sleep infinity" &
  echo $! >/run/nodes/$name
  until [ -d "$own/var/sluice" ]; do sleep 0.05; done
  ip link add "n$n" type veth peer name eth0 netns "$!"
  ip link set "n$n" master site up
  nsenter -t "$!" -n sh -ec "ip link set lo up; ip link set eth0 up; ip address add 198.51.100.$((10 + n))/24 dev eth0"
done
cd /root
