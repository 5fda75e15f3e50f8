// The parts of Kubernetes that start and end the pods of kube-proxy, each with the code of its release:
//
//	workloads daemonsets KUBECONFIG   the DaemonSet controller of kube-controller-manager
//	workloads manifests FOLDER        the reader of static pods of the kubelet: prints each change, such as ADD kube-system/kube-proxy-node-a
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: workloads daemonsets KUBECONFIG | manifests FOLDER"))
	}
	switch os.Args[1] {
	case "daemonsets":
		runDaemonSets(os.Args[2])
	case "manifests":
		readManifests(os.Args[2])
	default:
		fail(fmt.Errorf("there is no part %q", os.Args[1]))
	}
}

// runDaemonSets starts the controller as cmd/kube-controller-manager/app/apps.go does.
func runDaemonSets(kubeconfig string) {
	settings, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		fail(err)
	}
	client, err := kubernetes.NewForConfig(settings)
	if err != nil {
		fail(err)
	}
	ctx := context.Background()
	objects := informers.NewSharedInformerFactory(client, 0)
	controller, err := daemon.NewDaemonSetsController(
		ctx,
		objects.Apps().V1().DaemonSets(),
		objects.Apps().V1().ControllerRevisions(),
		objects.Core().V1().Pods(),
		objects.Core().V1().Nodes(),
		client,
		flowcontrol.NewBackOff(1*time.Second, 15*time.Minute),
	)
	if err != nil {
		fail(err)
	}
	objects.Start(ctx.Done())
	controller.Run(ctx, 2)
}

// readManifests reads as makePodSourceConfig of pkg/kubelet/kubelet.go does, with the kubelet's default period.
func readManifests(folder string) {
	ctx := context.Background()
	source := config.NewPodConfig(record.NewFakeRecorder(100), observer{})
	config.NewSourceFile(klog.FromContext(ctx), folder, "node-a", 20*time.Second, source.Channel(ctx, kubetypes.FileSource))
	for update := range source.Updates() {
		for _, pod := range update.Pods {
			fmt.Printf("%s %s/%s\n", operations[update.Op], pod.Namespace, pod.Name)
		}
	}
}

var operations = map[kubetypes.PodOperation]string{
	kubetypes.ADD:       "ADD",
	kubetypes.DELETE:    "DELETE",
	kubetypes.REMOVE:    "REMOVE",
	kubetypes.UPDATE:    "UPDATE",
	kubetypes.RECONCILE: "RECONCILE",
}

// observer takes the times of pods, which the kubelet has metrics for.
type observer struct{}

func (observer) ObservedPodOnWatch(klog.Logger, *v1.Pod, time.Time) {}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
